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


_ASK_A_USER = frozenset(
    {
        Code.CARDS_DIFFER,
        Code.CARD_MEMORY_UNKNOWN,
        Code.NO_GPU_NODE,
        Code.SHARE_TOO_LARGE,
        Code.UNEVEN_CARDS,
        Code.INIT_CONTAINER,
        Code.MIXED_RESOURCES,
        Code.MIG_RESOURCE,
        Code.OTHER_NVIDIA_RESOURCE,
        Code.UNREADABLE,
        Code.WHOLE_CARD_AFFINITY,
        Code.UNKNOWN_SHAPE,
        Code.SELECTION_UNCLEAR,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence with its code."""

    code: Code
    message: str

    @property
    def is_left(self) -> bool:
        """Whether something that was to be rewritten is as it was."""
        return self.code in _ASK_A_USER
