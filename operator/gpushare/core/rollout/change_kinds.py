"""Defines kinds of isolation change, which a user approves for all nodes at once."""

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
    """A kind of isolation change: the modes, and how a node gets from one to the other."""

    from_mode: ModeName
    to: ModeName
    outcome: Outcome
    workloads: WorkloadPolicy
    """How pods that hold the change up are handled."""
    teardown: str = ""
    """Actors that remove the kernel module and reboot the node; empty without teardown.
    """

    @property
    def change(self) -> str:
        """The former and the new mode, as messages show them."""
        return f"{self.from_mode} -> {self.to}"

    @property
    def is_done(self) -> bool:
        """Whether the operator makes the change, rather than a user."""
        return self.outcome is not Outcome.REQUIRES_MANUAL_ACTION

    @property
    def restarts_plugin(self) -> bool:
        """Whether the change deletes the device plugin's pod."""
        return self.outcome is Outcome.APPLY_AND_RESTART

    @property
    def reboots(self) -> bool:
        """Whether the change ends with a reboot, as a teardown does."""
        return self.outcome is Outcome.REQUIRES_TEARDOWN

    def __str__(self) -> str:
        text = f"{self.change}: {self.outcome}; workloads {self.workloads}"
        return f"{text}; {self.teardown}" if self.teardown else text


def hash_kinds(kinds: Iterable[ChangeKind]) -> str:
    """Return the hash of `kinds` for `rollout.approvedPlan`; empty without any.

    Equal kinds have the same hash in every pool and at any time.
    """
    listed = sorted({str(kind) for kind in kinds})
    if not listed:
        return ""
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:_HASH_CHARACTERS]
