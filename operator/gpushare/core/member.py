"""What one member of a pool needs next."""

from collections.abc import Collection
from datetime import datetime

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pool import Pool, RestartPolicy, Schedule
from gpushare.core.actions import NodePlan, NodeState, ReleaseNode, build_apply
from gpushare.core.blockers import find_blocking_pods, find_missing_daemonset
from gpushare.core.modes import (
    MODES,
    Mode,
    desired_labels,
    find_other_edition_labels,
    find_schedule,
)
from gpushare.core.records import Applied, Change, Step, extend_found
from gpushare.core.rollout import (
    Observed,
    Timing,
    build_applied,
    plan_cordon,
    plan_let_go,
    plan_step,
    running_plugins,
)
from gpushare.core.transitions import REPAIR, Outcome, Transition, find_transition
from gpushare.names import Reason


def plan_member(
    seen: Observed,
    pool: Pool,
    *,
    daemonsets: Collection[str],
    slot_free: bool,
    now: datetime,
    timing: Timing,
) -> NodePlan:
    """What `seen.node`, a member of `pool`, needs next.

    `slot_free` says whether the pool's budget lets one more node go out of service.
    """
    change = seen.records.change
    if change is not None and change.is_under_way:
        return _plan_under_way(seen, pool, change, now, timing)
    if seen.node.offers_mig:
        message = "the node offers MIG devices (nvidia.com/mig-*); it is left alone"
        return seen.plan(NodeState.BLOCKED, Reason.MIG_NODE, message)
    if others := find_other_edition_labels(pool.spec.edition, seen.node.labels):
        shown = ", ".join(f"{key}={value}" for key, value in sorted(others.items()))
        message = f"labels of another edition share this node's GPUs ({shown}); remove them"
        return seen.plan(NodeState.BLOCKED, Reason.OTHER_EDITION_LABELS, message)
    if change is not None and change.not_before is not None and now < change.not_before:
        wait = (change.not_before - now).total_seconds()
        return NodePlan(
            seen.node.name,
            NodeState.WAITING,
            Reason.WAITING_AFTER_LATE_BINDING,
            "gave way to a pod that was bound during the cordon, or to a person; tried again at "
            f"{change.not_before.isoformat(timespec='seconds')}",
            wake_after_seconds=wait,
        )
    return _plan_mode(seen, pool, daemonsets=daemonsets, slot_free=slot_free, now=now)


def _plan_under_way(
    seen: Observed, pool: Pool, change: Change, now: datetime, timing: Timing
) -> NodePlan:
    """A change that began is finished, unless it can still be dropped without a trace."""
    wanted = pool.spec.schedule is change.to and pool.name == change.pool
    if not wanted and change.step is Step.CORDONED:
        action = plan_let_go(seen, why="the pool wants something else now")
        return seen.plan(NodeState.UPDATING, Reason.UPDATING, "the pool changed", action)
    plan = plan_step(seen, now, timing)
    if plan.state is NodeState.FAILED and pool.spec.schedule is not change.to:
        transition = find_transition(change.edition, change.to, pool.spec.schedule)
        if transition.refusal is None:
            again = _begin(seen.node, pool, change.to, transition, now, joining=change.joining)
            return seen.plan(
                NodeState.UPDATING, Reason.CORDONED, "the spec changed", plan_cordon(seen, again)
            )
    return plan


def _plan_mode(
    seen: Observed, pool: Pool, *, daemonsets: Collection[str], slot_free: bool, now: datetime
) -> NodePlan:
    mode = MODES[pool.spec.edition, pool.spec.schedule]
    applied = seen.records.applied
    current = find_schedule(pool.spec.edition, seen.node.labels)
    transition = _needed_transition(seen, pool, mode, current)
    if transition is None:
        return _plan_labels(seen, pool, mode)
    if transition.refusal is not None:
        message = f"{current} -> {mode.schedule}: {transition.message}"
        return seen.plan(NodeState.BLOCKED, transition.refusal, message)
    of = MODES[pool.spec.edition, Schedule(current)]
    blocker = find_missing_daemonset(mode, daemonsets) or find_blocking_pods(
        transition, of, mode, seen.pods
    )
    if blocker is not None:
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    if (
        transition.outcome is Outcome.APPLY_AND_RESTART
        and pool.spec.device_plugin.restart is RestartPolicy.NEVER
    ):
        return _plan_labels(seen, pool, mode, awaits_restart=True)
    joining = applied is None and is_joining(seen)
    if not (slot_free or joining):
        return seen.plan(
            NodeState.WAITING,
            Reason.WAITING_FOR_BUDGET,
            "as many members are unavailable as may be; its turn comes when they are back",
        )
    change = _begin(seen.node, pool, Schedule(current), transition, now, joining=joining)
    return NodePlan(
        seen.node.name,
        NodeState.UPDATING,
        Reason.CORDONED,
        f"{current} -> {mode.schedule}",
        plan_cordon(seen, change),
        takes_slot=not joining,
    )


def _needed_transition(seen: Observed, pool: Pool, mode: Mode, current: str) -> Transition | None:
    """The transition to `mode`; None where writing labels is enough."""
    applied = seen.records.applied
    in_force = applied is not None and applied.schedule is mode.schedule
    misread = applied is not None and in_force and _may_have_misread(seen, applied, mode)
    if current == mode.schedule:
        if applied is not None and applied.awaits_restart and in_force:
            never = pool.spec.device_plugin.restart is RestartPolicy.NEVER
            restarted = applied.plugins != running_plugins(seen.pods, mode)
            return None if never or restarted else REPAIR
        return None
    if in_force and not misread:
        # Drift: the plugin still has what it read, so putting the labels back is all.
        return None
    return find_transition(pool.spec.edition, current, mode.schedule)


def _may_have_misread(seen: Observed, applied: Applied, mode: Mode) -> bool:
    """A plugin that started since `applied`, while the labels said something else."""
    running = running_plugins(seen.pods, mode)
    return any(applied.plugins.get(uid) != restarts for uid, restarts in running.items())


def _plan_labels(
    seen: Observed, pool: Pool, mode: Mode, *, awaits_restart: bool = False
) -> NodePlan:
    """The mode is in force: one apply where a label or a record is missing, else ready."""
    labels = desired_labels(pool.name, pool.spec)
    applied = _update_applied(seen, pool, mode, awaits_restart=awaits_restart)
    records = seen.records.model_copy(
        update={
            "found": extend_found(seen.records.found, seen.node, frozenset(labels)),
            "change": None,
            "applied": applied,
        }
    )
    if applied.awaits_restart:
        state, reason = NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED
        message = (
            f"labelled {mode.schedule}; {mode.plugin} still serves the former mode, and "
            "devicePlugin.restart is Never: delete its pod on this node"
        )
    else:
        state, reason, message = NodeState.READY, Reason.APPLIED, "as the pool says"
    if _is_settled(seen, labels, records.annotations()):
        return seen.plan(state, reason, message)
    action = build_apply(seen.node, labels, records, cordon=False, message="labels")
    return seen.plan(NodeState.UPDATING, Reason.UPDATING, "labels are being written", action)


def _update_applied(seen: Observed, pool: Pool, mode: Mode, *, awaits_restart: bool) -> Applied:
    """`applied` as it should be now that the node's labels are right.

    A plugin that starts meanwhile reads these labels, so it is remembered as one that is right:
    a later drift can then be told from one that a plugin has read.
    """
    previous = seen.records.applied
    running = running_plugins(seen.pods, mode)
    if previous is None or previous.schedule is not mode.schedule or awaits_restart:
        before = previous.before if previous else ()
        return build_applied(seen, pool.name, mode, before=before, awaits_restart=awaits_restart)
    changes: dict[str, object] = {}
    if previous.pool != pool.name:
        changes["pool"] = pool.name
    if running and running != previous.plugins:
        changes |= {"plugins": running, "awaits_restart": False}
    return previous.model_copy(update=changes)


def _is_settled(seen: Observed, labels: dict[str, str], annotations: dict[str, str]) -> bool:
    node = seen.node
    return (
        labels.items() <= node.labels.items()
        and labels.keys() | annotations.keys() == node.owned
        and annotations == dict(node.annotations)
        and not node.owns_cordon
    )


def _begin(
    node: Node, pool: Pool, of: Schedule, transition: Transition, now: datetime, *, joining: bool
) -> Change:
    return Change(
        pool=pool.name,
        edition=pool.spec.edition,
        of=of,
        to=pool.spec.schedule,
        step=Step.CORDONED,
        since=now,
        restart=transition.outcome is Outcome.APPLY_AND_RESTART,
        joining=joining,
    )


def is_joining(seen: Observed) -> bool:
    """A node that no pool had before and no GPU pod uses: changing it takes nothing away."""
    return names.LABEL_POOL not in seen.node.labels and not any(
        pod.is_live and pod.requests for pod in seen.pods
    )


def plan_leaving(seen: Observed, now: datetime, timing: Timing) -> NodePlan | None:
    """What a node that no pool claims any more needs, until nothing on it is ours.

    Retain: every label stays, ownership and records go. A change whose labels are written is
    finished first: half-way, the node would say one thing and do another.
    """
    if not seen.node.owned and not seen.node.owns_cordon:
        return None
    change = seen.records.change
    if change is not None and change.is_under_way:
        plan = None if change.step is Step.CORDONED else plan_step(seen, now, timing)
        if plan is not None and plan.state is not NodeState.FAILED:
            return plan
        action = plan_let_go(seen, why="the node leaves its pool")
        return seen.plan(NodeState.UPDATING, Reason.LEAVING, "letting go", action)
    release = ReleaseNode(seen.node.name, seen.node.uid)
    return seen.plan(NodeState.UPDATING, Reason.LEAVING, "ownership is given up", release)
