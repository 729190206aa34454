"""What one member of a pool needs next."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from gpushare import names
from gpushare.api.pool import Pool, RestartPolicy, Schedule
from gpushare.core.actions import NodePlan, NodeState, ReleaseNode, build_apply
from gpushare.core.blockers import (
    SHOWN,
    Blocker,
    find_blocking_pods,
    find_missing_daemonset,
    find_pods_of_another_mode,
    find_pods_of_another_pool,
)
from gpushare.core.inforce import (
    find_in_force,
    is_isolation_left,
    may_have_misread,
    running_plugins,
)
from gpushare.core.modes import MODES, Mode, desired_labels, find_other_edition_labels
from gpushare.core.records import Applied, Change, Step, extend_found
from gpushare.core.rollout import (
    Observed,
    Timing,
    build_applied,
    plan_cordon,
    plan_give_way,
    plan_let_go,
    plan_step,
)
from gpushare.core.transitions import REPAIR, Outcome, Transition, find_transition
from gpushare.core.verify import verify_mode
from gpushare.names import Reason


def plan_member(
    seen: Observed,
    pool: Pool,
    *,
    daemonsets: Collection[str],
    in_the_way: Collection[str],
    now: datetime,
    timing: Timing,
) -> NodePlan:
    """What `seen.node`, a member of `pool`, needs next.

    `in_the_way` are the nodes that use the pool's budget up; none where a slot is free.
    """
    change = seen.records.change
    if change is not None and change.is_under_way:
        plan = _plan_under_way(seen, pool, change, now, timing)
        if plan.state is not NodeState.FAILED or pool.spec.schedule is change.to:
            return plan
        # The spec changed after the deadline: begin anew, from the mode that was written.
        again = _plan_mode(
            seen, pool, of=change.to, daemonsets=daemonsets, in_the_way=in_the_way, now=now
        )
        if again.action is None:
            return replace(plan, message=f"{plan.message}. {again.reason}: {again.message}")
        return again
    if blocker := _find_reason_to_stay_away(seen, pool):
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    if change is not None and change.not_before is not None and now < change.not_before:
        return NodePlan(
            seen.node.name,
            NodeState.WAITING,
            Reason.WAITING_AFTER_LATE_BINDING,
            "gave way to a pod that was bound during the cordon, or to a person; tried again at "
            f"{change.not_before.isoformat(timespec='seconds')}",
            wake_after_seconds=(change.not_before - now).total_seconds(),
        )
    of = find_in_force(pool.spec.edition, seen.node, seen.pods, seen.records.applied)
    plan = _plan_mode(seen, pool, of=of, daemonsets=daemonsets, in_the_way=in_the_way, now=now)
    if seen.node.owns_cordon and plan.action is None:
        # Its record was removed by hand: half-way changed, it must not take pods.
        return replace(plan, message=f"{plan.message}. The cordon is ours, and stays until then")
    return plan


def _plan_under_way(
    seen: Observed, pool: Pool, change: Change, now: datetime, timing: Timing
) -> NodePlan:
    """A change that began is finished, unless it can still be dropped without a trace."""
    forbidden = change.restart and pool.spec.device_plugin.restart is RestartPolicy.NEVER
    wanted = (pool.spec.schedule, pool.name) == (change.to, change.pool) and not forbidden
    if not wanted and change.step is Step.CORDONED:
        action = plan_give_way(seen, why="the pool wants something else now")
        return seen.plan(NodeState.UPDATING, Reason.UPDATING, "the pool changed", action)
    return plan_step(seen, now, timing)


def _find_reason_to_stay_away(seen: Observed, pool: Pool) -> Blocker | None:
    """Why the node must be left exactly as it is."""
    if seen.node.offers_mig:
        message = "the node offers MIG devices (nvidia.com/mig-*); it is left alone"
        return Blocker(Reason.MIG_NODE, message)
    if others := find_other_edition_labels(pool.spec.edition, seen.node.labels):
        shown = ", ".join(f"{key}={value}" for key, value in sorted(others.items()))
        message = f"labels of another edition share this node's GPUs ({shown}); remove them"
        return Blocker(Reason.OTHER_EDITION_LABELS, message)
    return find_pods_of_another_pool(seen.node, pool.name, seen.pods)


def _plan_mode(
    seen: Observed,
    pool: Pool,
    *,
    of: str,
    daemonsets: Collection[str],
    in_the_way: Collection[str],
    now: datetime,
) -> NodePlan:
    """What leads from mode `of`, which is in force, to the pool's."""
    mode = MODES[pool.spec.edition, pool.spec.schedule]
    applied = seen.records.applied
    if applied is not None and is_isolation_left(seen.node, applied, mode):
        of = applied.schedule
    transition = _needed_transition(seen, pool, mode, of)
    if transition is None:
        return _plan_labels(seen, pool, mode)
    if transition.refusal is not None:
        message = f"{of} -> {mode.schedule}: {transition.message}"
        return seen.plan(NodeState.BLOCKED, transition.refusal, message)
    left = MODES[pool.spec.edition, Schedule(of)]
    blocker = (
        _find_reason_to_stay_away(seen, pool)
        or find_missing_daemonset(mode, daemonsets)
        or find_blocking_pods(transition, left, mode, seen.pods)
    )
    if blocker is not None:
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    restart = transition.outcome is Outcome.APPLY_AND_RESTART
    failed = seen.records.change
    if failed is not None and not failed.is_under_way:
        failed = None
    if restart and pool.spec.device_plugin.restart is RestartPolicy.NEVER:
        if failed is None:
            return _plan_labels(seen, pool, mode, awaits_restart=True)
        message = f"{of} -> {mode.schedule} needs a restart, and devicePlugin.restart is Never"
        return seen.plan(NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED, message)
    joining = failed.joining if failed else applied is None and is_joining(seen)
    if in_the_way and not joining:
        others = ", ".join(sorted(in_the_way)[:SHOWN])
        message = (
            f"as many nodes are out of service as may be ({others}); its turn comes after them"
        )
        return seen.plan(NodeState.WAITING, Reason.WAITING_FOR_BUDGET, message)
    change = Change(
        pool=pool.name,
        edition=pool.spec.edition,
        of=left.schedule,
        to=mode.schedule,
        step=Step.CORDONED,
        since=now,
        restart=restart,
        joining=joining,
        labelled_at=failed.labelled_at if failed else None,
    )
    return NodePlan(
        seen.node.name,
        NodeState.UPDATING,
        Reason.CORDONED,
        f"{of} -> {mode.schedule}",
        plan_cordon(seen, change),
        takes_slot=not joining,
    )


def _needed_transition(seen: Observed, pool: Pool, mode: Mode, of: str) -> Transition | None:
    """What the change from `of` to `mode` needs; None where writing labels is enough."""
    applied = seen.records.applied
    if of != mode.schedule:
        return find_transition(mode.edition, of, mode.schedule)
    if applied is None or not applied.is_of(mode):
        return None
    if may_have_misread(seen.node, seen.pods, applied):
        return REPAIR
    if applied.awaits_restart:
        never = pool.spec.device_plugin.restart is RestartPolicy.NEVER
        restarted = applied.plugins != running_plugins(seen.pods, mode)
        return None if never or restarted else REPAIR
    return None


def _plan_labels(
    seen: Observed, pool: Pool, mode: Mode, *, awaits_restart: bool = False
) -> NodePlan:
    """The mode is in force: one apply where a label or a record is missing, else ready."""
    labels = desired_labels(pool.name, pool.spec)
    if not mode.labels.items() <= seen.node.labels.items() and (
        blocker := find_pods_of_another_mode(mode, seen.pods)
    ):
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    applied, missing = _update_applied(seen, pool, mode, awaits_restart=awaits_restart)
    records = seen.records.model_copy(
        update={
            "found": extend_found(seen.records.found, seen.node, frozenset(labels)),
            "change": None,
            "applied": applied,
        }
    )
    if missing is not None:
        state, reason = NodeState.BLOCKED, missing.reason
        message = f"labelled {mode.schedule}, but {missing.message}"
    elif applied is not None and applied.awaits_restart:
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


def _update_applied(
    seen: Observed, pool: Pool, mode: Mode, *, awaits_restart: bool
) -> tuple[Applied | None, Blocker | None]:
    """`applied` as it should be now that the labels are right, and what is missing for it.

    A mode is recorded only once it is verified. A plugin that starts under the right labels reads
    them, so it is remembered as one that is right: a later drift can then be told from one that a
    plugin has read.
    """
    previous = seen.records.applied
    known = previous if previous is not None and previous.is_of(mode) else None
    running = running_plugins(seen.pods, mode)
    if awaits_restart:
        before = previous.before if previous else ()
        return build_applied(seen, pool.name, mode, before=before, awaits_restart=True), None
    replaced = known is not None and bool(running) and running != known.plugins
    if known is None or (known.awaits_restart and replaced):
        missing = verify_mode(seen.node, seen.pods, mode)
        if missing is not None:
            return known, Blocker(missing.reason, missing.message)
        before = previous.before if previous else ()
        return build_applied(seen, pool.name, mode, before=before), None
    changes: dict[str, object] = {"pool": pool.name}
    if replaced:
        changes["plugins"] = running
        if seen.node.boot_id != known.boot_id:
            # The kubelet admitted every pod anew in this boot, under these labels.
            changes |= {"boot_id": seen.node.boot_id, "before": ()}
    # What was verified once is not written again, but it is said when it no longer holds.
    missing = None if known.awaits_restart else verify_mode(seen.node, seen.pods, mode)
    blocker = Blocker(missing.reason, missing.message) if missing is not None else None
    return known.model_copy(update=changes), blocker


def _is_settled(seen: Observed, labels: dict[str, str], annotations: dict[str, str]) -> bool:
    node = seen.node
    return (
        labels.items() <= node.labels.items()
        and labels.keys() | annotations.keys() == node.owned
        and annotations == dict(node.annotations)
        and not node.owns_cordon
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
    if not (seen.node.owned or seen.node.owns_cordon or seen.node.annotations):
        return None
    change = seen.records.change
    if change is not None and change.is_under_way and change.step is not Step.CORDONED:
        plan = plan_step(seen, now, timing)
        if plan.state is not NodeState.FAILED:
            return plan
    if seen.node.owns_cordon:
        action = plan_let_go(seen, why="the node leaves its pool")
        return seen.plan(NodeState.UPDATING, Reason.LEAVING, "letting go", action)
    release = ReleaseNode(seen.node.name, seen.node.uid)
    return seen.plan(NodeState.UPDATING, Reason.LEAVING, "ownership is given up", release)
