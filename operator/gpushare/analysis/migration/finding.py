"""Findings of a migration: what a user must know or do besides what is rewritten."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_LEFT = True


class MigrationCode(StrEnum):
    """Codes of findings; `docs/migration.md` has a line for each."""

    is_left: bool
    """Something could not be rewritten: a user must decide."""

    def __new__(cls, code: str, is_left: bool = False) -> "MigrationCode":
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

    # Rewritten; check it.
    NODES_NOT_MIGRATED = "NodesNotMigrated"
    ISOLATION_BEGINS = "IsolationBegins"
    SEVERAL_CARDS = "SeveralCards"
    SEVERAL_CONTAINERS = "SeveralContainers"
    VISIBLE_DEVICES = "VisibleDevices"
    RUNTIME_CLASS = "RuntimeClass"
    NVIDIA_NODE_LABEL = "NVIDIANodeLabel"
    POOL_NAMED = "PoolNamed"
    RECREATE = "Recreate"
    REFORMATTED = "Reformatted"

    # Not rewritten; check it.
    CARD_COUNT_LIMIT = "CardCountLimit"
    OLD_COMPONENT = "OldComponent"
    QUOTA = "Quota"
    LIMIT_RANGE = "LimitRange"


@dataclass(frozen=True, slots=True)
class MigrationFinding:
    """A message with its code."""

    code: MigrationCode
    message: str
    about: str = ""
    """The object: its kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """A migrated manifest or part of one, and the findings on it."""

    raw: Any
    findings: tuple[MigrationFinding, ...] = ()
