"""An isolation change on one node, step by step; each step is one write, readable from the node.

    blockers gone -> cordon -> second look -> labels -> plugin's pods recorded -> deleted
    -> verified return -> uncordon

Where isolation must go for good, a teardown and a reboot stand in place of the plugin's restart.
The steps are `Change.step`. A process that starts anew goes on wherever the node says.
"""

from dataclasses import replace
from datetime import datetime

from gpushare.api.rollout import WorkloadPolicy
from gpushare.core.actions import (
    ApplyNode,
    DeletePlugins,
    EvictPods,
    LookAgain,
    NodePlan,
    NodeState,
    RecordPlugins,
    build_apply,
)
from gpushare.core.admitted import record_boot
from gpushare.core.blockers import Blocker, find_evictable_pods
from gpushare.core.change import (
    change_labels,
    find_late_pods,
    owned_labels,
    plan_held,
    transition_of,
)
from gpushare.core.completion import plan_completion
from gpushare.core.drift import Claim, judge_drift
from gpushare.core.failure import judge_progress, plan_overdue_look, plan_resumed
from gpushare.core.inforce import is_replaced, running_plugins
from gpushare.core.modes import MODES, find_schedule
from gpushare.core.module import note_module
from gpushare.core.observed import Observed, Pass, Timing
from gpushare.core.policy import Policy
from gpushare.core.records import Change, PluginPod, Step, extend_found
from gpushare.core.repair import plan_repair
from gpushare.core.teardown import plan_progress, plan_teardown, spend_word
from gpushare.core.transitions import Outcome, find_transition
from gpushare.names import Reason


def plan_cordon(seen: Observed, change: Change) -> ApplyNode:
    """Step 2: the cordon and the record of the change, in one write."""
    records = seen.records.model_copy(update={"change": change})
    return build_apply(
        seen.node,
        owned_labels(seen.node),
        note_module(seen, records, MODES[change.edition, change.of]),
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
    seen: Observed, *, why: str, now: datetime, not_before: datetime | None = None
) -> ApplyNode:
    """End a change whose labels are not written: let go, and with `not_before` try again then.

    Where the change follows one that failed, the node goes back to that: it stays cordoned until
    the mode that its labels say is verified.
    """
    change = seen.records.change
    assert change is not None
    if change.labelled_at is not None:
        restart = _may_serve_another(seen, change)
        back = {"to": change.of, "step": Step.LABELLED, "restart": restart, "plugins": ()}
        back |= {"labelled_at": now, "teardown": None}
        if change.undoes is not None:
            # The change that was to be taken back failed, and has still failed.
            back |= {"of": change.to, "failure": change.undoes, "undoes": None}
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


def _may_serve_another(seen: Observed, change: Change) -> bool:
    """Whether the plugin may not have read the labels that are on the node.

    The change that wrote them failed, and nothing says whether before the restart or after it.
    """
    applied = seen.records.applied
    running = running_plugins(seen.pods, MODES[change.edition, change.of])
    if applied is None or applied.edition is not change.edition:
        # No record says what the plugin that runs has read.
        return bool(running)
    if applied.schedule is change.of:
        # What failed was the restart of one that had read foreign labels.
        return bool(running) and running != applied.plugins
    transition = find_transition(change.edition, applied.schedule, change.of)
    return transition.outcome is Outcome.APPLY_AND_RESTART


def plan_after_look(
    seen: Observed,
    now: datetime,
    timing: Timing,
    *,
    stays: bool = False,
    may_restart: bool = True,
) -> ApplyNode | None:
    """Steps 3 and 4: `seen.pods` were read from the API server after the cordon.

    A pod among them that the change would harm was bound while the cordon went out: let go and
    wait, since it must start on a node that still is what the scheduler took it for. None where
    the node `stays` cordoned until such pods are gone.
    """
    change = seen.records.change
    assert change is not None
    blocker = find_late_pods(seen, change)
    if blocker is not None and stays:
        return None
    if blocker is not None:
        return plan_give_way(seen, why=blocker.message, not_before=now + timing.backoff, now=now)
    is_early = _has_come_early(seen, change)
    if is_early and not may_restart:
        why = "its plugin came by another's label, and devicePlugin.restart is Never"
        return plan_give_way(seen, why=why, not_before=now + timing.backoff, now=now)
    labels = change_labels(seen, change)
    # A foreign value counts when it is replaced: not at the cordon, which may be let go of again.
    verdict = judge_drift(seen.node, seen.records, labels, Claim(change.claim, force=True), now)
    records = seen.records.model_copy(
        update={
            "drift": verdict.record if verdict.puts_back else seen.records.drift,
            "found": extend_found(seen.records.found, seen.node, frozenset(labels)),
            "change": change.model_copy(
                update={
                    "step": Step.LABELLED,
                    "labelled_at": now,
                    "restart": change.restart or is_early,
                    "teardown": change.teardown and spend_word(seen.node, change.teardown),
                    **record_boot(seen),
                }
            ),
        }
    )
    # Before an installer can come.
    records = note_module(seen, records, MODES[change.edition, change.to])
    return build_apply(seen.node, labels, records, cordon=True, message=f"labelled for {change.to}")


def _has_come_early(seen: Observed, change: Change) -> bool:
    """Whether the plugin of the mode to come may have read another mode, by somebody's label.

    It serves nothing yet. One that is recorded for that mode has read it; on the way back from a
    change that failed, it may never have left. A reboot restarts it anyway.
    """
    of, to = MODES[change.edition, change.of], MODES[change.edition, change.to]
    if change.teardown is not None or of.plugin == to.plugin or not to.reads_label:
        return False
    applied = seen.records.applied
    is_known = (
        applied is not None
        and applied.is_of(to)
        and not applied.needs_restart
        and not is_replaced(seen.node, seen.pods, applied)
    )
    said = find_schedule(change.edition, seen.node.labels)
    return not is_known and said != change.to and bool(running_plugins(seen.pods, to))


def plan_restart(seen: Observed) -> ApplyNode | None:
    """Step 5: record which pods of the plugin will be deleted; `seen.pods` were read just now.

    Whatever started before the labels is among them. A process that resumes deletes only what
    is recorded, so that each is deleted once. None where the node is not safe for it now.
    """
    change = seen.records.change
    assert change is not None
    if not seen.is_out_of_service or find_late_pods(seen, change) is not None:
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
            **record_boot(seen),
        }
    )
    return build_apply(
        seen.node,
        change_labels(seen, change),
        seen.records.model_copy(update={"change": recorded}),
        cordon=True,
        message=f"recorded {len(recorded.plugins)} plugin pod(s) to restart",
    )


def plan_step(seen: Observed, policy: Policy, at: Pass) -> NodePlan:
    """What a change that is under way (not Deferred) needs next."""
    return replace(_plan_step(seen, policy, at), under_way=True)


def _plan_step(seen: Observed, policy: Policy, at: Pass) -> NodePlan:
    change = seen.records.change
    assert change is not None
    if change.step is Step.CORDONED:
        return _plan_cordoned(seen, change, policy, at)
    if (again := plan_resumed(seen, change, policy, at)) is not None:
        return again
    if (moved := plan_progress(seen, change, policy, at)) is not None:
        return moved
    plan = _plan_labelled(seen, change, policy, at)
    return judge_progress(seen, change, plan, policy, at)


def _plan_cordoned(seen: Observed, change: Change, policy: Policy, at: Pass) -> NodePlan:
    """Wait for pods under the cordon where the pool says so; then look again."""
    if not seen.is_out_of_service:
        # Somebody uncordoned it by hand during our change: their wish counts.
        why = "a person uncordoned the node"
        not_before = at.now + at.timing.backoff
        action = plan_give_way(seen, why=why, not_before=not_before, now=at.now)
        return seen.plan(NodeState.UPDATING, Reason.CORDONED, "giving way", action)
    if not seen.node.ready:
        # Its plugin would not return, and a machine that died would halt the pool.
        action = plan_give_way(seen, why="the node is not ready", now=at.now)
        return seen.plan(NodeState.UPDATING, Reason.NODE_NOT_READY, "giving way", action)
    if policy.stays_cordoned and (blocker := find_late_pods(seen, change)) is not None:
        return _plan_emptied(seen, change, blocker, policy, at)
    message = f"cordoned; looking for pods that were bound meanwhile ({change.to})"
    look = LookAgain(seen.node.name, stays=policy.stays_cordoned, may_restart=policy.may_restart)
    plan = seen.plan(NodeState.UPDATING, Reason.CORDONED, message, look)
    return plan_overdue_look(seen, change, plan, policy, at)


def _plan_emptied(
    seen: Observed, change: Change, blocker: Blocker, policy: Policy, at: Pass
) -> NodePlan:
    """Pods are on a node that is cordoned: they are waited for, or evicted."""
    plan = plan_held(seen, blocker)
    if policy.workloads is not WorkloadPolicy.EVICT:
        return plan
    if not at.may_evict:
        return plan_eviction_disabled(seen, blocker)
    pods = find_evictable_pods(transition_of(change), blocker.pods)
    return replace(plan, action=EvictPods(seen.node.name, pods)) if pods else plan


def plan_eviction_disabled(seen: Observed, blocker: Blocker) -> NodePlan:
    """The pool wants pods evicted, and the installation does not allow it."""
    message = (
        f"{blocker.message}; rollout.workloads is Evict, which this installation does not allow "
        "(the chart's value eviction.enabled)"
    )
    return seen.plan(NodeState.BLOCKED, Reason.EVICTION_DISABLED, message)


def _plan_labelled(seen: Observed, change: Change, policy: Policy, at: Pass) -> NodePlan:
    """Steps 5 to 7, and whatever somebody undid meanwhile."""
    if (repair := plan_repair(seen, change, policy.claim, at)) is not None:
        return repair
    if (teardown := plan_teardown(seen, change, policy, at)) is not None:
        return teardown
    if change.step is Step.LABELLED and change.restart:
        if (late := find_late_pods(seen, change)) is not None:
            return plan_held(seen, late)
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
    return plan_completion(seen, change, at)
