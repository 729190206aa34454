"""Defines kinds of isolation change: what a user approves, for any node."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from gpushare.api.pool import ModeName
from gpushare.api.rollout import WorkloadPolicy
from gpushare.editions.edition import Outcome

_HASH_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """One kind of change."""

    from_mode: ModeName
    to: ModeName
    outcome: Outcome
    workloads: WorkloadPolicy
    """What is done about pods that hold it up."""
    teardown: str = ""
    """Who removes the kernel module, and who reboots; empty where that is not needed."""

    @property
    def change(self) -> str:
        """From which mode to which."""
        return f"{self.from_mode} -> {self.to}"

    @property
    def is_done(self) -> bool:
        """Whether it is done automatically, rather than by a user."""
        return self.outcome is not Outcome.REQUIRES_MANUAL_ACTION

    @property
    def restarts_plugin(self) -> bool:
        """Whether the device plugin's pod is deleted."""
        return self.outcome is Outcome.APPLY_AND_RESTART

    @property
    def reboots(self) -> bool:
        """Whether it ends with a reboot, as a teardown does."""
        return self.outcome is Outcome.REQUIRES_TEARDOWN

    def __str__(self) -> str:
        told = f"{self.change}: {self.outcome}; workloads {self.workloads}"
        return f"{told}; {self.teardown}" if self.teardown else told


def hash_kinds(kinds: Iterable[ChangeKind]) -> str:
    """Hash these kinds for `rollout.approvedPlan`; empty where there are none.

    The same kinds have the same hash in every pool and at any time.
    """
    listed = sorted({str(kind) for kind in kinds})
    if not listed:
        return ""
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:_HASH_CHARACTERS]
