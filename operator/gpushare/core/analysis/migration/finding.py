"""What a person has to know, or to do, beside what is rewritten."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_LEFT = True


class Code(StrEnum):
    """Of findings; `docs/migration.md` has a line for each."""

    is_left: bool
    """Something that was to be rewritten is as it was: somebody must decide."""

    def __new__(cls, code: str, is_left: bool = False) -> "Code":
        member = str.__new__(cls, code)
        member._value_ = code
        member.is_left = is_left
        return member

    # The pod asks for what it asked for.
    CARDS_DIFFER = "CardsDiffer", _LEFT
    CARD_MEMORY_UNKNOWN = "CardMemoryUnknown", _LEFT
    NO_GPU_NODE = "NoGPUNode", _LEFT
    SHARE_TOO_LARGE = "ShareTooLarge", _LEFT
    UNEVEN_CARDS = "UnevenCards", _LEFT
    INIT_CONTAINER = "InitContainer", _LEFT
    MIXED_RESOURCES = "MixedResources", _LEFT
    MIG_RESOURCE = "MIGResource", _LEFT
    OTHER_NVIDIA_RESOURCE = "OtherNVIDIAResource", _LEFT
    UNREADABLE = "Unreadable", _LEFT
    WHOLE_CARD_AFFINITY = "WholeCardAffinity", _LEFT
    UNKNOWN_SHAPE = "UnknownShape", _LEFT

    # The selection of nodes is as it was.
    SELECTION_UNCLEAR = "SelectionUnclear", _LEFT

    # Rewritten, and to be looked at.
    ISOLATION_BEGINS = "IsolationBegins"
    SEVERAL_CARDS = "SeveralCards"
    SEVERAL_CONTAINERS = "SeveralContainers"
    VISIBLE_DEVICES = "VisibleDevices"
    RUNTIME_CLASS = "RuntimeClass"
    NVIDIA_NODE_LABEL = "NVIDIANodeLabel"
    POOL_NAMED = "PoolNamed"
    RECREATE = "Recreate"
    REFORMATTED = "Reformatted"

    # Not rewritten, and to be looked at.
    CARD_COUNT_LIMIT = "CardCountLimit"
    OLD_COMPONENT = "OldComponent"
    QUOTA = "Quota"
    LIMIT_RANGE = "LimitRange"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence with its code."""

    code: Code
    message: str
    about: str = ""
    """The object: its kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """A manifest or a part of one, as it is to be, and what a person has to know of it."""

    raw: Any
    findings: tuple[Finding, ...] = ()
