"""The rules of a node whose labels are written, until its plugin has returned."""

from datetime import datetime

from gpushare.core.deviceplugin.verification import verify_return
from gpushare.core.nodechange.blockers import (
    find_missing_config,
    find_pods_of_another_mode,
    find_unready,
)
from gpushare.core.nodechange.kernel_module import is_left_loaded, note_module
from gpushare.core.nodechange.label_restoration import (
    LABELS_RESTORED,
    change_labels,
    pause_restoring,
    report_conflict,
)
from gpushare.core.nodechange.labels_in_force import build_last_applied
from gpushare.core.nodechange.phases.teardown import has_rebooted, spend_word
from gpushare.core.nodechange.step import Step, find_late_pods
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.change_record import ChangePhase, PluginPod
from gpushare.core.snapshot.actions import (
    ApplyNode,
    DeletePlugins,
    NamedPod,
    NodeState,
    RecordPlugins,
    Verdict,
    build_apply,
)
from gpushare.core.snapshot.admissions import record_boot
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.core.snapshot.plugin_reading import running_plugins
from gpushare.names import Reason


def wait_for_node(step: Step) -> Verdict | None:
    """Wait if the node joins, and it or its driver is not Ready. The deadline then starts anew."""
    blocker = find_unready(step.seen) if step.change.initializing else None
    return step.updating(blocker.reason, blocker.message) if blocker is not None else None


def record_plugins(step: Step) -> Verdict | None:
    """Record the plugin's pods if it must be restarted, once no pod holds the change up."""
    if not step.change.restart:
        return None
    if step.late_pods is not None:
        return step.wait_for_pods(step.late_pods)
    if (waits := _follow_config(step)) is not None:
        return waits
    look = RecordPlugins(step.seen.node.name)
    return step.updating(
        Reason.LABELLED, "The node is labelled. The device plugin is restarted next", look
    )


def _follow_config(step: Step) -> Verdict | None:
    """Redirect the change to the configuration that the plugin would load if it started now.

    Blocked if the plugin would find nothing to load; None if the configuration is unchanged.
    """
    plugins = step.ctx.plugin_daemonsets
    if plugins.defines(step.to):
        return None
    now = plugins.resolve(step.to)
    if (blocker := find_missing_config(now, step.seen.pods, step.ctx)) is not None:
        return step.blocked(blocker)
    message = f"The configuration was edited: the change is to {now.schedule} now"
    # Pods that started meanwhile have loaded what was there before: all are recorded anew.
    action = step.write_change(message, to=now.schedule, phase=ChangePhase.LABELLED, plugins=())
    return step.updating(Reason.LABELLED, message, action)


def delete_plugins(step: Step) -> Verdict | None:
    """Delete recorded pods that still run, each once; if the configuration changed, record anew."""
    # Only pods that are really the plugin's: a writer of annotations must not choose victims.
    seen, recorded = step.seen, {pod.uid for pod in step.change.plugins}
    remaining = tuple(
        NamedPod(pod.namespace, pod.name, pod.uid)
        for pod in sorted(seen.pods, key=lambda pod: pod.uid)
        if pod.daemonset in step.to.replaced
        and pod.namespace == step.ctx.plugin_daemonsets.namespace_of(pod.daemonset)
        and pod.uid in recorded
        and not pod.deleting
    )
    if not remaining:
        return None
    if step.to.follows_label and step.late_pods is not None:
        # The cards of these pods would be allocated again.
        return step.wait_for_pods(step.late_pods)
    if (waits := _follow_config(step)) is not None:
        return waits
    action = DeletePlugins(seen.node.name, remaining)
    return step.updating(Reason.PLUGIN_RESTARTING, "The device plugin is being restarted", action)


def revert(step: Step) -> Verdict | None:
    """Undo an uncordon, and restore changed labels. For the mode's, the plugin is restarted after.

    A plugin that started under foreign labels has read them, so it is restarted again, but not
    while another manager keeps writing them. The node stays out of service until its plugin has
    returned: a pod that is bound before that fails.
    """
    seen, mode, drift = step.seen, step.to, step.drift
    # Only the labels wait, not the cordon.
    again = None if seen.is_out_of_service else step.write_change("cordoned again")
    if (pause := pause_restoring(drift, step.ctx.now, again)) is not None:
        return pause
    # A value that was removed and put back is not trusted: the plugin may have read another one.
    is_kept = mode.labels.keys() <= seen.node.owned or (
        seen.node.has_kept(mode.labels) and step.ctx.is_brief(None)
    )
    intact = mode.labels.items() <= seen.node.labels.items() and is_kept
    if not intact and mode.follows_label and step.late_pods is not None:
        # The plugin has followed that label, and would follow ours under the pods.
        return step.wait_for_pods(step.late_pods)
    records = seen.records.model_copy(update={"drift": drift.record})
    if not intact:
        restarted = step.change.model_copy(update=_restart_again(step))
        records = records.model_copy(update={"change": restarted})
    settled = drift.kept.items() <= seen.node.labels.items() and seen.is_out_of_service
    settled = settled and records == seen.records
    reason, message = Reason.LABELLED, "The node is cordoned and labelled again"
    if drift.reverts:
        reason, message = Reason.DRIFT_REVERTED, LABELS_RESTORED
    message = drift.message if drift.is_over_mode else message
    noted = note_module(seen, records, step.from_mode)
    action = build_apply(seen.node, drift.kept, noted, cordon=True, message=message)
    if drift.is_over_mode:
        # No plugin is restarted, and none is trusted, while another manager writes the mode.
        return report_conflict(drift, None if settled else action)
    return None if settled else step.updating(reason, message, action)


def _restart_again(step: Step) -> dict[str, object]:
    """Return the updates of a change whose labels were missing for a while: its steps to repeat.

    A teardown repeats nothing before its reboot, which restarts the plugin; a module that an
    installer put back is noticed after it. After the reboot the module is looked for again, and the
    plugin reads its labels again.
    """
    seen, change = step.seen, step.change
    # A pod that was admitted in this boot may have been admitted under the foreign label.
    boot = record_boot(seen) if has_rebooted(seen, change) else {}
    restart = change.restart or bool(running_plugins(seen.pods, step.to))
    if change.teardown is None:
        return {"phase": ChangePhase.LABELLED, "plugins": (), "restart": restart, **boot}
    if change.phase not in (ChangePhase.REBOOTED, ChangePhase.RESTARTING):
        return boot
    attempt = {"attempt": change.teardown.attempt + 1}
    teardown = spend_word(seen.node, change.teardown.model_copy(update=attempt))
    again = {"phase": ChangePhase.REBOOTED, "plugins": (), "restart": restart}
    return {**again, "teardown": teardown, **boot}


def complete(step: Step) -> Verdict:
    """Wait for plugin, components and resource, and for pods of other resources; then uncordon."""
    seen, change = step.seen, step.change
    missing = verify_return(seen, step.ctx)
    if missing is not None:
        return Verdict(
            NodeState.UPDATING, missing.reason, missing.message, requeue_after=missing.wait
        )
    users = find_pods_of_another_mode(step.to, seen.pods)
    if step.to.follows_label:
        users = users or step.late_pods
    if users is not None:
        return step.wait_for_pods(users)
    module, applied = is_left_loaded(seen, change), _build_applied(step)
    ended = {"change": None, "applied": applied, "module": module, "mode_unknown": False}
    action = build_apply(
        seen.node,
        change_labels(seen, change),
        seen.records.model_copy(update=ended),
        cordon=False,
        lifts_cordon=seen.has_lost_cordon,
        message=f"{change.to} verified, uncordoned",
    )
    return step.updating(Reason.UPDATING, f"Mode {change.to} is verified", action)


def _build_applied(step: Step) -> LastApplied:
    change = step.change
    applied = build_last_applied(step.seen, change.pool, step.to, change=change)
    if change.initializing:
        applied = applied.model_copy(update={"joined_at": step.ctx.now})
    if not change.restart or change.teardown or change.labelled_at is None or applied.failure:
        return applied
    took = max(0.0, round((step.ctx.now - change.labelled_at).total_seconds(), 1))
    return applied.model_copy(update={"took_seconds": took})


def plan_restart(seen: NodeSnapshot, now: datetime) -> ApplyNode | None:
    """Build the write that records which pods of the plugin will be deleted.

    `seen.pods` were read just now, so every pod that started before the labels is among them. An
    operator that resumes deletes only recorded pods, so that each is deleted once. None where
    another controller is at work on the node, or a pod came that the change would harm.
    """
    change = seen.records.change
    assert change is not None
    if not seen.is_ours_to_change or find_late_pods(seen, change) is not None:
        return None
    plugins = tuple(
        PluginPod(name=pod.name, uid=pod.uid)
        for pod in sorted(seen.pods, key=lambda pod: pod.uid)
        if pod.daemonset in change.mode.replaced
    )
    recorded = {"phase": ChangePhase.RESTARTING, "plugins": plugins, **record_boot(seen)}
    restarts = seen.records.restarts.add(seen.node.retry, now)
    update = {"change": change.model_copy(update=recorded), "restarts": restarts}
    return build_apply(
        seen.node,
        change_labels(seen, change),
        seen.records.model_copy(update=update),
        cordon=True,
        message=f"recorded {len(plugins)} plugin pod(s) to restart",
    )


def is_completion(plan: Verdict) -> bool:
    """Return whether `plan` ends the change: it has a write that uncordons the node."""
    return isinstance(plan.action, ApplyNode) and not plan.action.cordon
