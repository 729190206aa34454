"""What a person has to know, or to do, beside what is rewritten."""

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Of findings; `docs/migration.md` has a line for each."""

    # The pod asks for what it asked for: somebody must decide.
    CARDS_DIFFER = "CardsDiffer"
    CARD_MEMORY_UNKNOWN = "CardMemoryUnknown"
    NO_GPU_NODE = "NoGPUNode"
    SHARE_TOO_LARGE = "ShareTooLarge"
    UNEVEN_CARDS = "UnevenCards"
    INIT_CONTAINER = "InitContainer"
    MIXED_RESOURCES = "MixedResources"
    MIG_RESOURCE = "MIGResource"
    OTHER_NVIDIA_RESOURCE = "OtherNVIDIAResource"
    UNREADABLE = "Unreadable"
    WHOLE_CARD_AFFINITY = "WholeCardAffinity"
    UNKNOWN_SHAPE = "UnknownShape"

    # The selection of nodes is as it was.
    SELECTION_UNCLEAR = "SelectionUnclear"

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
