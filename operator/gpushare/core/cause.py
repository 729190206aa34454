"""The cause why a node's change may not begin, or why a node is not in its mode."""

from dataclasses import dataclass
from datetime import timedelta

from gpushare.api.k8s.pod import Pod
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason, and a sentence that says what a person can do about it."""

    reason: Reason
    message: str
    pods: tuple[Pod, ...] = ()
    """Pods that hold the change up; empty where it is something else."""
    wait: timedelta | None = None
    """Time after which to decide again without an event, because the cause may have ended."""
