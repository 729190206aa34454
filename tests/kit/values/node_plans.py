"""Builds members of a pool and their records, and plans for them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from gpushare import names
from gpushare.api.k8s.daemonset import FORMER
from gpushare.api.k8s.job import Job
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.api.rollout import WorkloadPolicy
from gpushare.api.status import Approval, PoolPlan, PoolStatus
from gpushare.core.cause import Cause
from gpushare.core.nodechange.phases.cordoned import plan_after_recheck
from gpushare.core.nodechange.reconcile_node import plan_node
from gpushare.core.nodechange.releasing import plan_release
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.change_record import Change, ChangePhase, Failure, PluginPod
from gpushare.core.records.drift_record import Drift
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.records.restart_record import Restarts
from gpushare.core.rollout.change_kinds import ChangeKind, hash_kinds
from gpushare.core.snapshot.actions import (
    Action,
    ApplyNode,
    Halt,
    NodeFacts,
    NodePlan,
    NodeState,
    PendingChange,
    Verdict,
)
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext, Timing
from gpushare.editions.edition import Outcome
from gpushare.names import Reason
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    PRO_DAEMONSETS,
    PRO_INSTALLED,
    a_node,
    a_plugin_pod,
    a_pool,
    installed,
)

SHARE = {names.LABEL_SCHEDULE: "share"}
CGPU = {names.LABEL_SCHEDULE: "cgpu"}
OURS = {names.LABEL_POOL: "training"}
VERIFIED = {names.LABEL_ISOLATION_VERIFIED: "true"}
UNVERIFIED = {names.LABEL_ISOLATION_VERIFIED: "false"}
INSTALLER = a_plugin_pod("installer-1", daemonset="cgpu-installer")
LEFT_INSTALLER = replace(INSTALLER, daemonset=f"{FORMER}{INSTALLER.daemonset}")
"""Pod of a DaemonSet whose standard name was given to another."""
NEVER = a_pool(device_plugin={"restart": "Never"})


def plan_of(
    node: Node,
    pool: Pool,
    *pods: Pod,
    slot_free: bool = True,
    daemonsets: frozenset[str] = PRO_DAEMONSETS,
    now: datetime = NOW,
    may_evict: bool = False,
    may_tear_down: bool = False,
    jobs: Iterable[Job] = (),
    is_refused: bool = False,
    acting_since: datetime | None = None,
    slices: Collection[str] = (),
) -> NodePlan:
    snapshot = NodeSnapshot(
        node,
        pods,
        parse_records(node),
        jobs={job.name: job for job in jobs},
        is_refused=is_refused,
        resource_slices=slices,
    )
    ctx = ReconcileContext(
        now,
        plugin_daemonsets=installed(daemonsets),
        may_evict=may_evict,
        may_tear_down=may_tear_down,
        acting_since=acting_since,
    )
    plan = plan_node(snapshot, pool, ctx)
    return plan.begin() if slot_free or plan.initializes else plan


def applied(
    schedule: Schedule | str = Schedule.CGPU, *, module: bool = False, **more: object
) -> NodeRecords:
    values: dict[str, object] = {
        "pool": "training",
        "edition": Edition.PROFESSIONAL,
        "schedule": schedule,
        "boot_id": "boot-1",
        "plugins": {"plugin-1": 0},
        **more,
    }
    return NodeRecords(initial_values={}, applied=LastApplied.model_validate(values), module=module)


def replaced(times: int, *, minutes_ago: int = 1, retry: str = "") -> NodeRecords:
    """Build records in mode share after so many restarts of the plugin, one a minute."""
    moments = tuple(NOW - timedelta(minutes=minutes_ago + each) for each in reversed(range(times)))
    restarts = Restarts(retry=retry, at=moments)
    return applied(Schedule.SHARE).model_copy(update={"restarts": restarts})


def record_removed(times: int, claim: str = "training/1", retry: str = "") -> NodeRecords:
    """Build records in mode share after so many removals of the change's record, one a second."""
    removals = tuple(NOW - timedelta(seconds=each + 1) for each in reversed(range(times)))
    drift = Drift(claim=claim, retry=retry, removals=removals)
    return applied(Schedule.SHARE).model_copy(update={"drift": drift})


def a_node_plan(
    node: str,
    state: NodeState,
    reason: Reason,
    message: str,
    action: Action | None = None,
    *,
    kind: ChangeKind | None = None,
    pods: int = 0,
    halts: str = "",
    **facts: Any,
) -> NodePlan:
    """Build a plan by its verdict, with these facts about the node."""
    verdict = Verdict(
        state,
        reason,
        message,
        action,
        pending=PendingChange(kind, pods) if kind is not None else None,
        halt=Halt(halts) if halts else None,
    )
    return NodePlan(node, verdict, NodeFacts(**facts))


def halted_by(plan: NodePlan) -> str:
    """Return the failure by which the node halts its pool; empty where it halts none."""
    return plan.halt.message if plan.halt is not None else ""


def seconds_to_next(plan: NodePlan) -> float | None:
    """Return the seconds until the node is decided again; None where it waits for events."""
    return plan.requeue_after.total_seconds() if plan.requeue_after is not None else None


def expect_apply(plan: NodePlan | Verdict) -> ApplyNode:
    assert isinstance(plan.action, ApplyNode), plan
    return plan.action


def expect_change(plan: NodePlan | Verdict) -> Change:
    return Change.model_validate_json(expect_apply(plan).annotations[names.ANNOTATION_CHANGE])


def expect_applied(plan: NodePlan) -> LastApplied:
    """Return the applied mode in the plan's record."""
    return LastApplied.model_validate_json(expect_apply(plan).annotations[names.ANNOTATION_APPLIED])


def expect_idle(plan: NodePlan | None, state: NodeState, reason: Reason) -> NodePlan:
    """Check that the plan has no action, and this state and reason."""
    assert plan is not None
    assert (plan.state, plan.reason, plan.action) == (state, reason, None)
    return plan


def expect_cause(missing: Cause | None, reason: Reason, *words: str) -> Cause:
    """Check what a node lacks for its mode, with these words in the message."""
    assert missing is not None
    assert missing.reason is reason
    assert [word for word in words if word not in missing.message] == []
    return missing


def written(node: Node, action: object) -> Node:
    assert isinstance(action, ApplyNode), action
    return replace(
        node,
        labels={**node.labels, **action.labels},
        annotations=action.annotations,
        owned=frozenset({*action.labels, *action.annotations}),
        unschedulable=action.cordon,
        owns_cordon=action.cordon,
    )


def follow(node: Node, plan: NodePlan) -> Node:
    """Return the node after the plan's write; of labels of others only its group stays."""
    apply = expect_apply(plan)
    return replace(written(node, apply), labels={"group": "gpu", **apply.labels})


def observe(
    node: Node, pods: Sequence[Pod] = (), change: Change | None = None, **more: Any
) -> NodeSnapshot:
    """Build a snapshot of the node with these pods and this change."""
    records = parse_records(node) if change is None else NodeRecords(change=change)
    return NodeSnapshot(node, pods, records, **more)


def recheck(
    node: Node, *pods: Pod, now: datetime = NOW, slices: Collection[str] = (), **more: bool
) -> ApplyNode | None:
    """Plan the write to a cordoned node after its pods were read again."""
    snapshot = NodeSnapshot(node, pods, parse_records(node), resource_slices=slices)
    return plan_after_recheck(snapshot, now, Timing(), **more)


def expect_recheck(
    node: Node, *pods: Pod, now: datetime = NOW, slices: Collection[str] = (), **more: bool
) -> ApplyNode:
    apply = recheck(node, *pods, now=now, slices=slices, **more)
    assert apply is not None
    return apply


def plan_once_noted(node: Node, pool: Pool, *pods: Pod, now: datetime = NOW) -> NodePlan:
    """Plan after all writes that leave the node in service."""
    plan = plan_of(node, pool, *pods, now=now)
    for _ in range(3):
        if isinstance(plan.action, ApplyNode) and plan.action.cordon is node.owns_cordon:
            node = follow(node, plan)
            plan = plan_of(node, pool, *pods, now=now)
    return plan


def under_way(phase: ChangePhase, **more: Any) -> NodeRecords:
    """Build records of a change from share to cgpu, labelled at NOW."""
    change = deferred(0).change
    assert change is not None
    labelled_at = None if phase is ChangePhase.CORDONED else NOW
    update = {"phase": phase, "not_before": None, "labelled_at": labelled_at, **more}
    return applied(Schedule.SHARE).model_copy(update={"change": change.model_copy(update=update)})


def on_basic(of: Schedule, to: Schedule, phase: ChangePhase, **more: Any) -> NodeRecords:
    """Build records of a change on the Basic edition that restarts the plugin."""
    way = {"edition": Edition.BASIC, "from_mode": of, "to": to, "restart": True, "labelled_at": NOW}
    records = under_way(phase, **{**way, **more})
    before = applied(Schedule.SHARE, edition=Edition.BASIC)
    return records.model_copy(update={"applied": before.applied})


def change_of(records: NodeRecords) -> Change:
    assert records.change is not None
    return records.change


def plan_leave_of(
    node: Node,
    *pods: Pod,
    pool: Pool | None = None,
    now: datetime = NOW,
    may_tear_down: bool = False,
) -> NodePlan | None:
    snapshot = NodeSnapshot(node, pods, parse_records(node))
    context = ReconcileContext(now, plugin_daemonsets=PRO_INSTALLED, may_tear_down=may_tear_down)
    plan = plan_release(snapshot, pool, context)
    return plan.begin() if plan is not None else None


def expect_release(
    node: Node,
    *pods: Pod,
    pool: Pool | None = None,
    now: datetime = NOW,
    may_tear_down: bool = False,
) -> NodePlan:
    """Plan a node that has something of ours."""
    plan = plan_leave_of(node, *pods, pool=pool, now=now, may_tear_down=may_tear_down)
    assert plan is not None
    return plan


def a_kind(
    of: str = "share",
    to: str = "cgpu",
    outcome: Outcome = Outcome.APPLY_AND_RESTART,
    workloads: WorkloadPolicy = WorkloadPolicy.WAIT,
    teardown: str = "",
) -> ChangeKind:
    return ChangeKind(of, to, outcome, workloads, teardown)


def agreed(*kinds: ChangeKind, to: str = "") -> PoolStatus:
    """Build the status of a pool whose plan `to` with these kinds was approved."""
    listed = tuple(sorted(map(str, kinds)))
    approval = Approval(hash=to or hash_kinds(kinds), kinds=listed)
    return PoolStatus(plan=PoolPlan(approved=approval))


def a_settled(name: str = "gpu-1", *, records: NodeRecords | None = None, **more: Any) -> Node:
    """Build a member in mode share after its change."""
    return a_node(name, {**SHARE, **OURS}, records=records or applied(Schedule.SHARE), **more)


def an_isolating(name: str = "gpu-1", *, records: NodeRecords | None = None, **more: Any) -> Node:
    """Build a member in mode cgpu after its change."""
    return a_node(name, {**CGPU, **OURS}, records=records or applied(), **more)


def a_failure(attempt: str = "training/1") -> Failure:
    return Failure(
        attempt=attempt,
        phase=ChangePhase.RESTARTING,
        reason=Reason.DEADLINE_EXCEEDED,
        message="cgpu-installer is not Ready on the node, 600 s after the labels",
        at=NOW,
    )


def failed(attempt: str = "training/1", **more: Any) -> NodeRecords:
    """Build records of a change from share to cgpu that failed in this attempt."""
    values: dict[str, Any] = {
        "labelled_at": NOW - timedelta(hours=1),
        "plugins": (PluginPod(name="old", uid="old"),),
        "failure": a_failure(attempt),
    }
    return under_way(**{"phase": ChangePhase.RESTARTING, **values, **more})


def changing(name: str = "gpu-0", *, initializing: bool = False, **more: Any) -> Node:
    records = under_way(ChangePhase.LABELLED, initializing=initializing)
    return a_node(name, {**CGPU, **OURS}, records=records, unschedulable=True, **more)


def unlabelled(records: NodeRecords | None = None, **more: Any) -> Node:
    """Build a member that is cordoned for its change to cgpu, still with the labels of share."""
    records = records or under_way(ChangePhase.CORDONED)
    values: dict[str, Any] = {"unschedulable": True, "owns_cordon": True, **more}
    return a_node(labels={**SHARE, **OURS}, records=records, **values)


def cordoned(records: NodeRecords, *, offered: int = 0, **more: Any) -> Node:
    """Build a member with the labels of cgpu that we cordoned."""
    values: dict[str, Any] = {"gpu_count": 1, "unschedulable": True, "owns_cordon": True, **more}
    offers = {MEMORY: offered}
    return a_node(labels={**CGPU, **OURS}, records=records, allocatable=offers, **values)


def has_failed(name: str = "gpu-0", **more: Any) -> Node:
    return a_node(name, {**CGPU, **OURS}, records=failed(**more), unschedulable=True)


def done(name: str, **more: Any) -> Node:
    """Build a node after its change to cgpu."""
    records = applied(from_mode="share", plugins={f"plugin-{name}": 0}, **more)
    return a_node(name, {**CGPU, **OURS}, records=records, allocatable={MEMORY: 15})


def some_settled(count: int, first: int = 1) -> list[Node]:
    return [a_settled(f"gpu-{index}") for index in range(first, first + count)]


def deferred(minutes: float) -> NodeRecords:
    change = Change(
        pool="training",
        edition=Edition.PROFESSIONAL,
        from_mode=Schedule.SHARE,
        to=Schedule.CGPU,
        phase=ChangePhase.DEFERRED,
        since=NOW,
        not_before=NOW + timedelta(minutes=minutes),
    )
    return applied(Schedule.SHARE).model_copy(update={"change": change})
