"""Judges what a user tells a rollout: that it may begin, and that what failed is tried again.

Each is judged before it is written: one that is not needed now would count for something else
later.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpushare.analysis.program_name import name_command
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.rollout import ApprovalPolicy
from gpushare.core.ownership.claims import decide_claim, find_owner, list_claimants
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.records.record import RecordError
from gpushare.core.rollout.start_now import find_active
from gpushare.core.sizing.accepted_move import find_accepted, name_accepted
from gpushare.core.snapshot.change_policy import build_attempt, build_claim
from gpushare.core.snapshot.node import Timing
from gpushare.names import Condition, Reason

_WAITING = frozenset({Reason.WAITING_FOR_APPROVAL, Reason.ROLLOUT_HALTED})
"""Reasons of the condition RolloutComplete with which an approval may be missing."""


class NotCalledForError(Exception):
    """The approval or retry is not needed; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class RequestedValue:
    """Annotation value to write, and its purpose; no value where it is set already."""

    value: str
    about: str


def judge_approval(pool: Pool, seen_hash: str) -> RequestedValue:
    """Return the hash to approve, which must be `seen_hash` where the user gives one.

    An empty one is set already. Raises `NotCalledForError`.
    """
    rollout, plan = pool.spec.rollout, pool.status.plan
    if pool.deleting:
        raise NotCalledForError(f"pool {pool.name} is being deleted, which needs no approval")
    if rollout.approval is ApprovalPolicy.AUTOMATIC:
        raise NotCalledForError(
            f"rollout.approval of pool {pool.name} is Automatic: its changes need no approval"
        )
    if pool.status.observed_generation != pool.generation:
        raise NotCalledForError(
            f"the controller has not read the latest spec of pool {pool.name} yet, so its plan may "
            "change. Check that a controller runs, then try again"
        )
    current = plan.hash if plan is not None else ""
    if seen_hash and current and seen_hash != current:
        raise NotCalledForError(
            f"the plan of pool {pool.name} is now {current}, not {seen_hash}. Review it before you "
            f"approve it. Run: {name_command(f'plan pool {pool.name}')}"
        )
    if plan is None or not current:
        raise NotCalledForError(f"pool {pool.name} has nothing left to change")
    if rollout.approved_plan == current:
        return RequestedValue("", plan.summary)
    if _find_reason(pool) not in _WAITING:
        raise NotCalledForError(
            f"nothing in the plan {current} of pool {pool.name} waits for approval: {plan.summary}"
        )
    return RequestedValue(current, plan.summary)


def judge_start_now(pool: Pool, seen_hash: str, now: str) -> RequestedValue:
    """Return the value of the annotation that starts the plan with `seen_hash` outside the windows.

    Empty where it is started already. Raises `NotCalledForError`.
    """
    plan, window = pool.status.plan, pool.status.window
    current = plan.hash if plan is not None else ""
    if plan is None or not current or seen_hash != current:
        told = f"is now {current}, not {seen_hash}" if current else "has nothing left to change"
        raise NotCalledForError(
            f"the plan of pool {pool.name} {told}. Review it first. Run: "
            f"{name_command(f'plan pool {pool.name}')}"
        )
    if window is not None and window.state == "Frozen":
        way = f"unfreeze {pool.name}, or unfreeze --all"
        raise NotCalledForError(
            f"pool {pool.name} is frozen, which start-now does not override. Run: "
            f"{name_command(f'retry pool/{pool.name}' if is_contested(pool) else way)}"
        )
    if find_active(pool) and pool.start_now.partition("@")[0] == current:
        return RequestedValue("", plan.summary)
    if window is None or window.state == "Open":
        raise NotCalledForError(
            f"no window holds the changes of pool {pool.name} up. To see what they wait for, run: "
            f"{name_command(f'plan pool {pool.name}')}"
        )
    return RequestedValue(f"{current}@{now}", plan.summary)


def find_recommending(pools: Iterable[Pool], seen_hash: str) -> str:
    """Find the pool to which the move with this hash is recommended. Raises `NotCalledForError`."""
    shown = {
        pool.status.recommendation.hash: pool.name
        for pool in pools
        if pool.status.recommendation is not None
    }
    if seen_hash in shown:
        return shown[seen_hash]
    others = f"Recommended now: {', '.join(sorted(shown))}" if shown else "None is recommended now"
    raise NotCalledForError(
        f"no move with hash {seen_hash} is recommended. {others}. To review them, run: "
        f"{name_command('recommend')}"
    )


def judge_accepted_move(pool: Pool, seen_hash: str) -> RequestedValue:
    """Return the value of the annotation that accepts the move with `seen_hash` to `pool`.

    Empty where it is accepted already. Raises `NotCalledForError`.
    """
    found = pool.status.recommendation
    if found is None or found.hash != seen_hash:
        raise NotCalledForError(
            f"the recommendation of pool {pool.name} has changed. To review it, run: "
            f"{name_command('recommend')}"
        )
    about = f"node {found.node} moves from pool {found.source} to pool {pool.name}"
    if find_accepted(pool) == seen_hash:
        return RequestedValue("", about)
    return RequestedValue(name_accepted(found), about)


def is_contested(pool: Pool) -> bool:
    """Tell whether the controller holds the pool because writers contest its spec."""
    return _find_reason(pool) == Reason.SPEC_CONTESTED


def _find_reason(pool: Pool) -> str:
    conditions = pool.status.conditions
    return next((c.reason for c in conditions if c.type == Condition.ROLLOUT_COMPLETE), "")


def judge_pool_retry(pool: Pool, nodes: Iterable[Node], now: str) -> RequestedValue:
    """Return `now` for the pool's annotation; empty where all that failed is tried again.

    Raises `NotCalledForError`, and `RecordError` where the records of one of its nodes can't be
    read.
    """
    failed: list[str] = []
    tried: list[str] = []
    for node in nodes:
        try:
            records = parse_records(node)
        except RecordError:
            if find_owner(node, NodeRecords()) == pool.name:
                raise
            continue
        failure = records.failure
        if failure is None or find_owner(node, records) != pool.name:
            continue
        is_current = failure.attempt == build_attempt(pool, node.retry)
        (failed if is_current else tried).append(node.name)
    if failed:
        return RequestedValue(now, f"{', '.join(sorted(failed))} failed")
    if is_contested(pool):
        return RequestedValue(now, "its spec is contested")
    if tried:
        return RequestedValue("", f"{', '.join(sorted(tried))} failed")
    raise NotCalledForError(f"no node of pool {pool.name} has failed")


def judge_told_retry(pool: Pool, now: str) -> RequestedValue:
    """Judge the same for users who may not list nodes: by what the controller reported last.

    Raises `NotCalledForError`.
    """
    failed = pool.status.nodes.failed
    if is_contested(pool):
        return RequestedValue(now, "its spec is contested, as the controller reported last")
    if not failed and _find_reason(pool) not in (Reason.ROLLOUT_HALTED, Reason.JOINS_HALTED):
        raise NotCalledForError(
            f"no node of pool {pool.name} has failed, as the controller reported last; the nodes "
            "themselves cannot be listed"
        )
    return RequestedValue(now, f"{failed} nodes failed, as the controller reported last")


def judge_node_retry(node: Node, pool: Pool, now: str) -> RequestedValue:
    """Return `now` for the node's annotation; empty where what failed is tried again.

    `pool` is the one that has the node. Raises `NotCalledForError`, and `RecordError` where the
    node's records can't be read.
    """
    records = parse_records(node)
    failure, drift = records.failure, records.drift
    if failure is not None:
        about = failure.describe(node.name)
        is_current = failure.attempt == build_attempt(pool, node.retry)
        return RequestedValue(now if is_current else "", about)
    claim = build_claim(pool).spec
    if drift is not None and drift.conflicts and (drift.claim, drift.retry) == (claim, node.retry):
        keys = ", ".join(sorted({conflict.key for conflict in drift.conflicts}))
        return RequestedValue(now, f"{keys} was left to {drift.conflicts[0].manager}")
    limit = Timing().restarts_per_hour - 1
    if records.restarts.find_free(node.retry, datetime.fromisoformat(now), limit):
        return RequestedValue(now, "its device plugin was replaced too often within an hour")
    raise NotCalledForError(
        f"no change of node {node.name} has failed, and no label of it was left to another "
        f"manager. To see what it waits for, run: {name_command(f'plan pool {pool.name}')}"
    )


def find_pool_to_join(node: Node, pools: Sequence[Pool]) -> Pool | None:
    """Find which of all `pools` a node is about to join that no pool has; None where sizes decide
    that."""
    if any(pool.spec.nodes.size is not None for pool in list_claimants(node, pools)):
        return None
    claim = decide_claim(node, None, [pool for pool in pools if not pool.observes])
    return claim.winner if claim is not None else None


def explain_no_pool(node: Node, pools: Iterable[Pool]) -> NotCalledForError:
    """Explain why a node that none of all `pools` has cannot be retried."""
    claim = decide_claim(node, None, [pool for pool in pools if pool.observes])
    if claim is None:
        return NotCalledForError(f"node {node.name} belongs to no pool: nothing can be retried")
    return NotCalledForError(
        f"pool {claim.winner.name} only observes node {node.name} (its reconcile is Observe): "
        "nothing can be retried"
    )


def find_pool_of(node: Node) -> str | None:
    """Find the node's pool. Raises `RecordError` where its records can't be read."""
    return find_owner(node, parse_records(node))
