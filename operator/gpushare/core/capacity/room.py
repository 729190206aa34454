"""The free GPU memory of a pool, on which the choice for a pod depends."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Room:
    """The free GPU memory of a pool, in units of the device plugin, which are those of pods'
    requests."""

    free_blocks: tuple[tuple[int, int], ...] = ()
    """Cards by their free memory: (memory, number of cards), largest first."""
    pending: int = 0
    """Memory that pods ask for which have no card yet."""
    requested: int = 0
    """Memory that all pods ask for."""
    total: int = 0
    largest_card: int = 0
    """0 where that is not known."""
    unit: str = "GiB"
    free_pods: int | None = None
    """Number of pods that the cards can still take; None where only memory limits it."""

    @cached_property
    def free(self) -> int:
        """The free memory less what is asked for; below 0 where that is more."""
        return sum(size * cards for size, cards in self.free_blocks) - self.pending
