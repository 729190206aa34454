"""An isolation change on one node, step by step; each step is one write, readable from the node.

    blockers gone -> cordon -> second look -> labels -> plugin's pods recorded -> deleted
    -> verified return -> uncordon

The steps are `Change.step`. A process that starts anew goes on wherever the node says.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.core.actions import (
    ApplyNode,
    DeletePlugins,
    LookAgain,
    NodePlan,
    NodeState,
    RecordPlugins,
    build_apply,
)
from gpushare.core.blockers import (
    Blocker,
    find_blocking_pods,
    find_pods_of_another_mode,
)
from gpushare.core.drift import Claim, judge_drift
from gpushare.core.inforce import running_plugins
from gpushare.core.modes import MODES, Mode
from gpushare.core.observed import Observed, Timing
from gpushare.core.records import Applied, Change, NodeRecords, PluginPod, Step, extend_found
from gpushare.core.transitions import REPAIR, Transition, find_transition
from gpushare.core.verify import verify_return
from gpushare.names import Reason


def owned_labels(node: Node) -> dict[str, str]:
    """The labels of ours on `node`, as they are: what an apply must carry to change none."""
    return {
        key: node.labels[key] for key in sorted(names.NODE_LABELS & node.owned & {*node.labels})
    }


def change_labels(seen: Observed, change: Change) -> dict[str, str]:
    """The labels of ours on the node once `change` has put its mode there.

    What was given up to a rival is left out, except the mode: that is what the change is about.
    """
    mode, drift = MODES[change.edition, change.to], seen.records.drift
    kept = {k: v for k, v in owned_labels(seen.node).items() if k not in names.MODE_LABELS}
    given_up = {rival.key for rival in drift.rivals} if drift is not None else set()
    if names.LABEL_POOL not in given_up:
        kept[names.LABEL_POOL] = change.pool
    return {**kept, **mode.labels}


def transition_of(change: Change) -> Transition:
    """What `change` needs; going to the mode that the node has is a plugin's restart alone."""
    if change.of == change.to:
        return REPAIR
    return find_transition(change.edition, change.of, change.to)


def plan_cordon(seen: Observed, change: Change) -> ApplyNode:
    """Step 2: the cordon and the record of the change, in one write."""
    return build_apply(
        seen.node,
        owned_labels(seen.node),
        seen.records.model_copy(update={"change": change}),
        cordon=True,
        message=f"cordoned for {change.of} -> {change.to}",
    )


def plan_let_go(seen: Observed, *, why: str, change: Change | None = None) -> ApplyNode:
    """Back to before the cordon; `change` is what is to be remembered, if anything."""
    return build_apply(
        seen.node,
        owned_labels(seen.node),
        seen.records.model_copy(update={"change": change}),
        cordon=False,
        message=f"uncordoned: {why}",
    )


def plan_give_way(
    seen: Observed, *, why: str, not_before: datetime | None = None, now: datetime | None = None
) -> ApplyNode:
    """End a change whose labels are not written: let go, and with `not_before` try again then.

    Where the change follows one that failed, the node goes back to that: it stays cordoned until
    the mode that its labels say is verified.
    """
    change = seen.records.change
    assert change is not None
    if change.labelled_at is not None:
        back = {"to": change.of, "step": Step.LABELLED, "restart": False, "plugins": ()}
        records = seen.records.model_copy(update={"change": change.model_copy(update=back)})
        return build_apply(
            seen.node,
            owned_labels(seen.node),
            records,
            cordon=True,
            message=f"still waiting: {why}",
        )
    if not_before is None:
        return plan_let_go(seen, why=why)
    deferred = {"step": Step.DEFERRED, "since": now, "not_before": not_before}
    return plan_let_go(seen, why=why, change=change.model_copy(update=deferred))


def plan_after_look(seen: Observed, now: datetime, timing: Timing) -> ApplyNode:
    """Steps 3 and 4: `seen.pods` were read from the API server after the cordon.

    A pod among them that the change would harm was bound while the cordon went out: let go and
    wait, since it must start on a node that still is what the scheduler took it for.
    """
    change = seen.records.change
    assert change is not None
    of, to = MODES[change.edition, change.of], MODES[change.edition, change.to]
    blocker = find_blocking_pods(transition_of(change), of, to, seen.pods)
    if blocker is not None:
        return plan_give_way(seen, why=blocker.message, not_before=now + timing.backoff, now=now)
    labels = change_labels(seen, change)
    # A foreign value counts when it is replaced: not at the cordon, which may be let go of again.
    verdict = judge_drift(seen.node, seen.records, labels, Claim(change.claim, force=True), now)
    records = seen.records.model_copy(
        update={
            "drift": verdict.record if verdict.puts_back else seen.records.drift,
            "found": extend_found(seen.records.found, seen.node, frozenset(labels)),
            "change": change.model_copy(update={"step": Step.LABELLED, "labelled_at": now}),
        }
    )
    return build_apply(seen.node, labels, records, cordon=True, message=f"labelled for {change.to}")


def plan_restart(seen: Observed) -> ApplyNode | None:
    """Step 5: record which pods of the plugin will be deleted; `seen.pods` were read just now.

    Whatever started before the labels is among them. A process that resumes deletes only what
    is recorded, so that each is deleted once. None where the node is not safe for it now.
    """
    change = seen.records.change
    assert change is not None
    if not seen.is_out_of_service or _find_late_pods(seen, change) is not None:
        return None
    plugin = MODES[change.edition, change.to].plugin
    recorded = change.model_copy(
        update={
            "step": Step.RESTARTING,
            "plugins": tuple(
                PluginPod(name=pod.name, uid=pod.uid)
                for pod in sorted(seen.pods, key=lambda pod: pod.uid)
                if pod.daemonset == plugin
            ),
            "before": bound_gpu_pods(seen.pods),
        }
    )
    return build_apply(
        seen.node,
        change_labels(seen, change),
        seen.records.model_copy(update={"change": recorded}),
        cordon=True,
        message=f"recorded {len(recorded.plugins)} plugin pod(s) to restart",
    )


def plan_step(seen: Observed, claim: Claim, now: datetime, timing: Timing) -> NodePlan:
    """What a change that is under way (not Deferred) needs next."""
    change = seen.records.change
    assert change is not None
    if change.step is Step.CORDONED:
        if not seen.is_out_of_service:
            # Somebody uncordoned it by hand during our change: their wish counts.
            why = "a person uncordoned the node"
            action = plan_give_way(seen, why=why, not_before=now + timing.backoff, now=now)
            return seen.plan(NodeState.UPDATING, Reason.CORDONED, "giving way", action)
        message = f"cordoned; looking for pods that were bound meanwhile ({change.to})"
        return seen.plan(NodeState.UPDATING, Reason.CORDONED, message, LookAgain(seen.node.name))
    if (repair := _plan_repair(seen, change, claim, now)) is not None:
        return repair
    if change.step is Step.LABELLED and change.restart:
        if (late := _find_late_pods(seen, change)) is not None:
            return _plan_held(seen, late)
        return seen.plan(
            NodeState.UPDATING,
            Reason.LABELLED,
            "labelled; the plugin is restarted next",
            RecordPlugins(seen.node.name),
        )
    # Only what is a plugin's pod indeed: whoever may write annotations must not choose victims.
    plugin, recorded = MODES[change.edition, change.to].plugin, {p.uid for p in change.plugins}
    if remaining := tuple(
        PluginPod(name=pod.name, uid=pod.uid)
        for pod in sorted(seen.pods, key=lambda pod: pod.uid)
        if plugin and pod.daemonset == plugin and pod.uid in recorded and not pod.deleting
    ):
        return seen.plan(
            NodeState.UPDATING,
            Reason.PLUGIN_RESTARTING,
            "restarting the device plugin",
            DeletePlugins(seen.node.name, remaining),
        )
    return _plan_verified(seen, change, now, timing)


def _plan_repair(seen: Observed, change: Change, claim: Claim, now: datetime) -> NodePlan | None:
    """What somebody undid after the labels were written: labels, or the cordon.

    A plugin that started under foreign labels has read them, so it is restarted again; but not
    while a rival keeps writing them. The node stays out of service until its plugin is back: a pod
    that is bound before that is lost.
    """
    wanted = {**change_labels(seen, change), names.LABEL_POOL: change.pool}
    verdict = judge_drift(seen.node, seen.records, wanted, claim, now)
    mode = MODES[change.edition, change.to]
    contested = bool(verdict.fought_over & mode.labels.keys())
    if verdict.wait is not None:
        return seen.plan_contested(verdict) if verdict.rivals else seen.wait_for_pace(verdict, now)
    labels = {key: value for key, value in wanted.items() if key not in verdict.given_up}
    # A value that somebody took away and put back is not ours: who knows what was read meanwhile.
    intact = mode.labels.items() <= seen.node.labels.items()
    intact = intact and mode.labels.keys() <= seen.node.owned
    records = seen.records.model_copy(update={"drift": verdict.record})
    if not intact:
        restart = change.restart or bool(running_plugins(seen.pods, mode))
        again = {"step": Step.LABELLED, "plugins": (), "restart": restart}
        records = records.model_copy(update={"change": change.model_copy(update=again)})
    settled = labels.items() <= seen.node.labels.items() and seen.is_out_of_service
    settled = settled and records == seen.records
    if settled and not contested:
        return None
    plan = seen.plan(NodeState.UPDATING, Reason.LABELLED, "cordoned and labelled again")
    if contested:
        # No plugin is restarted, and none is believed, while a rival writes the mode.
        plan = seen.plan_contested(verdict)
    elif verdict.puts_back:
        plan = replace(plan, reason=Reason.DRIFT_REPAIRED, message="labels put back")
    if settled:
        return plan
    action = build_apply(seen.node, labels, records, cordon=True, message=plan.message)
    return replace(plan, action=action)


def _plan_held(seen: Observed, blocker: Blocker) -> NodePlan:
    message = f"{blocker.message}; until then it stays cordoned, and no other node is started"
    return seen.plan(NodeState.BLOCKED, blocker.reason, message)


def _find_late_pods(seen: Observed, change: Change) -> Blocker | None:
    """Pods that came to the node although it was cordoned, and that the restart would harm."""
    of, to = MODES[change.edition, change.of], MODES[change.edition, change.to]
    return find_blocking_pods(transition_of(change), of, to, seen.pods)


def _plan_verified(seen: Observed, change: Change, now: datetime, timing: Timing) -> NodePlan:
    """Steps 6 and 7: wait for the verified return, then uncordon and write `applied`."""
    to = MODES[change.edition, change.to]
    missing = verify_return(
        seen.node,
        seen.pods,
        change=change,
        was_zero=seen.was_zero,
        settle=timing.settle,
        now=now,
    )
    if missing is None and (users := find_pods_of_another_mode(to, seen.pods)) is not None:
        return _plan_held(seen, users)
    if missing is None:
        records = NodeRecords(
            found=seen.records.found,
            applied=build_applied(seen, change.pool, to, before=change.before),
            drift=seen.records.drift,
        )
        action = build_apply(
            seen.node,
            change_labels(seen, change),
            records,
            cordon=False,
            message=f"{change.to} verified, uncordoned",
        )
        return seen.plan(NodeState.UPDATING, Reason.UPDATING, "verified", action)
    assert change.labelled_at is not None
    deadline = change.labelled_at + timing.ready_timeout
    wait = missing.wait.total_seconds() if missing.wait is not None else None
    if now >= deadline:
        held = "" if change.joining else ", and no other node of the pool is started"
        return NodePlan(
            seen.node.name,
            NodeState.FAILED,
            Reason.DEADLINE_EXCEEDED,
            f"{missing.message}, {timing.ready_timeout.total_seconds():g} s after the labels; the "
            f"node stays cordoned{held} until this is mended",
            wake_after_seconds=wait,
        )
    left = (deadline - now).total_seconds()
    return NodePlan(
        seen.node.name,
        NodeState.UPDATING,
        missing.reason,
        f"{missing.message}; failed if that lasts until {deadline.isoformat(timespec='seconds')}",
        wake_after_seconds=left if wait is None else min(left, wait),
    )


def build_applied(
    seen: Observed,
    pool: str,
    mode: Mode,
    *,
    before: tuple[str, ...] = (),
    awaits_restart: bool = False,
) -> Applied:
    """The record of a mode that is in force on the node."""
    return Applied(
        pool=pool,
        edition=mode.edition,
        schedule=mode.schedule,
        boot_id=seen.node.boot_id,
        plugins=running_plugins(seen.pods, mode),
        before=before,
        awaits_restart=awaits_restart,
    )


def bound_gpu_pods(pods: Sequence[Pod]) -> tuple[str, ...]:
    """UIDs of the live pods that hold GPUs."""
    return tuple(sorted(pod.uid for pod in pods if pod.is_live and pod.requests))
