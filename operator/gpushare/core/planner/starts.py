"""Judges which of a pool's queued nodes may start: nodes with equal requests share one answer."""

from dataclasses import replace
from typing import NamedTuple

from gpushare.api.pool import Pool
from gpushare.core.cause import Cause
from gpushare.core.rollout.budget import RolloutProgress, find_start_refusal
from gpushare.core.rollout.change_kinds import ChangeKind
from gpushare.core.rollout.window_state import WindowState


class StartRequest(NamedTuple):
    """All that the answer to a queued node depends on, beside the sums and windows of its pool."""

    kind: ChangeKind | None
    """The change that needs approval; None where none does."""
    initializes: bool
    is_leaving: bool
    under_way: bool
    """The node is out of service already, for a change that failed."""
    is_unavailable: bool
    is_changing: bool
    is_admitted: bool
    """It was admitted before: its cordon is being written."""
    has_place: bool
    """It takes a place to join already, as one that is cordoned and lost its record."""

    @property
    def needs_place(self) -> bool:
        """Whether the node begins to join: then it needs one of the places of all pools, too."""
        return self.initializes and not (self.under_way or self.is_leaving or self.has_place)

    def find_refusal(
        self, pool: Pool | None, progress: RolloutProgress, windows: WindowState | None
    ) -> Cause | None:
        """Find why a node may not start; None where it may.

        The budget that the node uses itself does not count. A node that is out of service already
        needs no more: nodes that failed together must not wait for each other.
        """
        if self.is_admitted:
            return None
        if self.under_way:
            rest = replace(progress, unavailable=0, changing=0, joins_halted_by="")
        else:
            rest = replace(
                progress,
                unavailable=progress.unavailable - self.is_unavailable,
                changing=progress.changing - self.is_changing,
            )
        return find_start_refusal(
            pool,
            rest,
            self.kind,
            initializes=self.initializes,
            is_given_back=self.is_leaving,
            windows=windows,
        )
