"""The rules of a node whose labels are written, until its plugin is back."""

from gpushare.core.nodechange.completion import plan_completion
from gpushare.core.nodechange.failure import plan_resumed
from gpushare.core.nodechange.ongoing_change import plan_wait_cordoned
from gpushare.core.nodechange.revert_in_change import plan_revert_in_change
from gpushare.core.nodechange.step import Step
from gpushare.core.nodechange.teardown import plan_progress, plan_teardown
from gpushare.core.records.change_record import PluginPod
from gpushare.core.snapshot.actions import DeletePlugins, RecordPlugins, StepResult
from gpushare.editions.registry import MODES
from gpushare.names import Reason


def try_again(step: Step) -> StepResult | None:
    """It failed, and the spec or a retry annotation is another by now: it gets a new deadline."""
    return plan_resumed(step.seen, step.change, step.policy, step.ctx)


def note_progress(step: Step) -> StepResult | None:
    """A teardown went on by itself (a boot, a Job, a user's word): that is written down."""
    return plan_progress(step.seen, step.change, step.policy, step.ctx)


def revert(step: Step) -> StepResult | None:
    """Somebody changed the labels or uncordoned the node: both are put back."""
    return plan_revert_in_change(step.seen, step.change, step.policy.claim, step.ctx)


def tear_down(step: Step) -> StepResult | None:
    """A kernel module must go: what a teardown needs in this phase, or waits for."""
    return plan_teardown(step.seen, step.change, step.policy, step.ctx)


def record_plugins(step: Step) -> StepResult | None:
    """The plugin must be restarted: its pods are recorded, once none waits to start."""
    if not step.change.restart:
        return None
    if step.late_pods is not None:
        return plan_wait_cordoned(step.seen, step.late_pods)
    look = RecordPlugins(step.seen.node.name)
    return step.updating(Reason.LABELLED, "labelled; the plugin is restarted next", look)


def delete_plugins(step: Step) -> StepResult | None:
    """Pods of the plugin that are recorded still run: they are deleted, each once."""
    # Only what is a plugin's pod indeed: whoever may write annotations must not choose victims.
    change, seen = step.change, step.seen
    plugin, recorded = MODES[change.edition, change.to].plugin, {p.uid for p in change.plugins}
    remaining = tuple(
        PluginPod(name=pod.name, uid=pod.uid)
        for pod in sorted(seen.pods, key=lambda pod: pod.uid)
        if plugin and pod.daemonset == plugin and pod.uid in recorded and not pod.deleting
    )
    if not remaining:
        return None
    action = DeletePlugins(seen.node.name, remaining)
    return step.updating(Reason.PLUGIN_RESTARTING, "restarting the device plugin", action)


def complete(step: Step) -> StepResult:
    """Plugin, components and resource are waited for; once they are back, it is uncordoned."""
    return plan_completion(step.seen, step.change, step.ctx)
