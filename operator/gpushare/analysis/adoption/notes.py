"""Notes on adopted pools: the nodes that they leave out, and what they can't promise."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpushare.core.deviceplugin.findings import list_few

SHOWN = 12
"""Names in one sentence."""
_LEFT_OUT = True


class AdoptionCode(StrEnum):
    """Codes of notes; `docs/adoption.md` has a line for each."""

    leaves_out: bool
    """Whether notes of this code are about nodes that no pool has."""

    def __new__(cls, code: str, leaves_out: bool = False) -> "AdoptionCode":
        member = str.__new__(cls, code)
        member._value_ = code
        member.leaves_out = leaves_out
        return member

    # Nodes that are left out.
    IN_POOL = "InPool", _LEFT_OUT
    POOL_UNREADABLE = "PoolUnreadable", _LEFT_OUT
    CONFLICTING_LABELS = "ConflictingLabels", _LEFT_OUT
    UNKNOWN_VALUE = "UnknownValue", _LEFT_OUT
    MIG_NODE = "MigNode", _LEFT_OUT
    UNLABELLED = "Unlabelled", _LEFT_OUT
    NO_GPU_ON_NODE = "NoGpuOnNode", _LEFT_OUT
    ALREADY_PROFESSIONAL = "AlreadyProfessional", _LEFT_OUT

    # Nodes that are in one of the pools.
    PLACEMENT_IGNORED = "PlacementIgnored"
    NOT_READY = "NotReady"

    # Pools.
    BY_NAME = "ByName"
    MIXED_NODE_POOL = "MixedNodePool"
    NAMED_AFTER_LABEL = "NamedAfterLabel"


_OF_POOLS = frozenset(
    {AdoptionCode.BY_NAME, AdoptionCode.MIXED_NODE_POOL, AdoptionCode.NAMED_AFTER_LABEL}
)


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """A note on nodes, or on a pool."""

    code: AdoptionCode
    message: str
    names: tuple[str, ...]

    @property
    def is_of_pool(self) -> bool:
        return self.code in _OF_POOLS

    @property
    def about(self) -> str:
        """The nodes or pools of the note: the first names, and the number of the others."""
        what = "pool" if self.is_of_pool else "node"
        return f"{what}{'s' if len(self.names) > 1 else ''} {list_names(self.names)}"

    @property
    def text(self) -> str:
        """The message, after whether its nodes are left out."""
        return f"left out: {self.message}" if self.code.leaves_out else self.message

    def __str__(self) -> str:
        return f"{self.code}: {self.about}: {self.text}"


def note(code: AdoptionCode, name: str, message: str) -> Note:
    """Build a note on one node or pool."""
    return Note(code, message, (name,))


def gather(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Merge notes of several nodes with the same message into one."""
    named: defaultdict[tuple[AdoptionCode, str], set[str]] = defaultdict(set)
    for each in notes:
        named[each.code, each.message].update(each.names)
    return tuple(
        Note(code, message, tuple(sorted(of))) for (code, message), of in sorted(named.items())
    )


def list_names(listed: tuple[str, ...]) -> str:
    """List the first names, and how many more there are."""
    return list_few(listed, SHOWN)
