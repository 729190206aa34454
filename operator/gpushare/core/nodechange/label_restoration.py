"""Says which labels a node must have, in every phase, and reports what is left to others.

Here is which labels a node must have, and what is said while they are left to another manager or
restored later. `ownership.drift` judges what the others did; a step has that as `Step.drift`.
"""

from datetime import datetime

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import ModeName, Pool
from gpushare.core.ownership.drift import WRITES_PER_PACE, DriftJudgement
from gpushare.core.records.change_record import Change
from gpushare.core.snapshot.actions import Action, NodeState, Verdict
from gpushare.core.snapshot.isolation_label import find_isolation_label
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.editions.registry import desired_labels
from gpushare.names import Reason

LABELS_RESTORED = "Labels that another field manager changed are restored"


def owned_labels(node: Node) -> dict[str, str]:
    """Return the operator's labels on `node`: an apply must carry them all to change none."""
    return {
        key: node.labels[key] for key in sorted(names.NODE_LABELS & node.owned & {*node.labels})
    }


def change_labels(seen: NodeSnapshot, change: Change) -> dict[str, str]:
    """Return the operator's labels on the node once `change` has written its mode there.

    Labels given up to another field manager keep out, except the mode's, which the change is about.
    """
    mode, drift = change.mode, seen.records.drift
    kept = {k: v for k, v in owned_labels(seen.node).items() if k not in names.MODE_LABELS}
    given_up = {conflict.key for conflict in drift.conflicts} if drift is not None else set()
    if names.LABEL_POOL not in given_up:
        kept[names.LABEL_POOL] = change.pool
    return {**kept, **mode.labels}


def find_changed_labels(seen: NodeSnapshot, change: Change) -> dict[str, str]:
    """Return the labels that the node must have from when `change` has written its mode."""
    labels = {**change_labels(seen, change), names.LABEL_POOL: change.pool}
    return labels | find_isolation_label(seen.node, labels, seen.records)


def find_enforced_labels(seen: NodeSnapshot, pool: Pool, from_mode: ModeName) -> dict[str, str]:
    """Return the labels that the node must have until a change writes others.

    While the node waits for a change these are the labels of the mode in force, not the pool's. A
    value that is already the pool's stays: a user put it there to prepare the node.
    """
    applied, wanted = seen.records.applied, desired_labels(pool.name, pool.spec)
    if applied is None or applied.edition is not pool.spec.edition or from_mode != applied.schedule:
        return wanted | find_isolation_label(seen.node, wanted, seen.records)
    labels, present = desired_labels(applied.pool, pool.spec), seen.node.labels
    enforced = {key: value for key, value in labels.items() if key not in names.MODE_LABELS}
    enforced |= {
        key: wanted[key] if key in wanted and present.get(key) == wanted[key] else value
        for key, value in applied.mode.labels.items()
    }
    return enforced | find_isolation_label(seen.node, enforced, seen.records)


def report_conflict(
    drift: DriftJudgement, action: Action | None = None, message: str = ""
) -> Verdict:
    """Report who keeps changing the node's labels, until the conflict is over."""
    waits = [wait for wait in (drift.wait, drift.calm_after) if wait is not None]
    return Verdict(
        NodeState.BLOCKED,
        Reason.LABEL_CONFLICT,
        message or drift.message,
        action,
        requeue_after=min(waits, default=None),
    )


def pause_restoring(
    drift: DriftJudgement, now: datetime, action: Action | None = None
) -> Verdict | None:
    """Pause if labels were restored too often of late; None where they are restored now."""
    if drift.wait is None:
        return None
    if drift.conflicts:
        return report_conflict(drift, action)
    then = (now + drift.wait).isoformat(timespec="seconds")
    return Verdict(
        NodeState.WAITING,
        Reason.LABEL_CONFLICT,
        f"Labels were restored {WRITES_PER_PACE} times within a minute. They are restored again at "
        f"{then}. To see who changes them, run: kubectl describe node {drift.node}",
        action,
        requeue_after=drift.wait,
    )
