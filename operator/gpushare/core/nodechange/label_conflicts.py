"""Reports managers that keep changing a node's labels, and pauses the restoring of labels."""

from datetime import datetime

from gpushare.core.ownership.drift import WRITES_PER_PACE, DriftJudgement
from gpushare.core.snapshot.actions import Action, NodeState, Verdict
from gpushare.names import Reason


def explain_conflict(node: str, drift: DriftJudgement) -> str:
    """Explain who keeps changing the labels of `node`, and how to end that."""
    retry = f", then run `kubectl gpushare retry node/{node}`" if drift.given_up else ""
    return f"{drift.message}{retry}"


def report_conflict(node: str, drift: DriftJudgement, action: Action | None = None) -> Verdict:
    """Report who keeps changing the labels of `node`, until the conflict is over."""
    waits = [wait for wait in (drift.wait, drift.calm_after) if wait is not None]
    return Verdict(
        NodeState.BLOCKED,
        Reason.LABEL_CONFLICT,
        explain_conflict(node, drift),
        action,
        requeue_after=min(waits, default=None),
    )


def pause_restoring(
    node: str, drift: DriftJudgement, now: datetime, action: Action | None = None
) -> Verdict:
    """Pause, where the labels of `node` were restored too often of late."""
    assert drift.wait is not None
    if drift.conflicts:
        return report_conflict(node, drift, action)
    then = (now + drift.wait).isoformat(timespec="seconds")
    return Verdict(
        NodeState.WAITING,
        Reason.LABEL_CONFLICT,
        f"Labels were restored {WRITES_PER_PACE} times within a minute. They are restored again at "
        f"{then}. To see who changes them, run: kubectl describe node {node}",
        action,
        requeue_after=drift.wait,
    )
