"""Defines why a node's change may not begin."""

from dataclasses import dataclass
from datetime import datetime

from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node's change may not start now."""

    reason: Reason
    message: str
    until: datetime | None = None
    """When a contest ends, unless the field changes again."""

    @property
    def holds_all(self) -> bool:
        """Whether it also holds what a user has started now, and what joins."""
        return self.reason in (Reason.ROLLOUT_FROZEN, Reason.SPEC_CONTESTED)
