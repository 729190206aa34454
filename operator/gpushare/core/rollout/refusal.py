"""Defines why a node's change may not begin."""

from dataclasses import dataclass

from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node's change may not start now."""

    reason: Reason
    message: str

    @property
    def holds_all(self) -> bool:
        """Whether it also holds what a user has started now, and what joins."""
        return self.reason in (Reason.ROLLOUT_FROZEN, Reason.SPEC_CONTESTED)
