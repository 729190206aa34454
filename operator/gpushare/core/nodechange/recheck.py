"""What is written once the node's pods were read again from the API server."""

from datetime import datetime

from gpushare.core.nodechange.cordoned import plan_abort
from gpushare.core.nodechange.kernel_module import note_module
from gpushare.core.nodechange.step import (
    change_labels,
    find_late_pods,
)
from gpushare.core.nodechange.teardown import spend_word
from gpushare.core.ownership.drift import Claim, judge_drift
from gpushare.core.records.change_record import Change, ChangePhase, PluginPod
from gpushare.core.records.node_records import extend_initial_values
from gpushare.core.snapshot.actions import (
    ApplyNode,
    build_apply,
)
from gpushare.core.snapshot.admissions import record_boot
from gpushare.core.snapshot.effective_mode import is_replaced, running_plugins
from gpushare.core.snapshot.node import NodeSnapshot, Timing
from gpushare.editions.registry import MODES, find_schedule


def plan_after_recheck(
    seen: NodeSnapshot,
    now: datetime,
    timing: Timing,
    *,
    stays: bool = False,
    may_restart: bool = True,
) -> ApplyNode | None:
    """The labels: `seen.pods` were read from the API server after the cordon.

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
        return plan_abort(seen, why=blocker.message, not_before=now + timing.backoff, now=now)
    is_early = _has_come_early(seen, change)
    if is_early and not may_restart:
        why = "its plugin came by another's label, and devicePlugin.restart is Never"
        return plan_abort(seen, why=why, not_before=now + timing.backoff, now=now)
    labels = change_labels(seen, change)
    # A foreign value counts when it is replaced: not at the cordon, which may be let go of again.
    verdict = judge_drift(seen.node, seen.records, labels, Claim(change.claim, force=True), now)
    records = seen.records.model_copy(
        update={
            "drift": verdict.record if verdict.reverts else seen.records.drift,
            "initial_values": extend_initial_values(
                seen.records.initial_values, seen.node, frozenset(labels)
            ),
            "change": change.model_copy(
                update={
                    "phase": ChangePhase.LABELLED,
                    "labelled_at": now,
                    "restart": change.restart or is_early,
                    "teardown": change.teardown and spend_word(seen.node, change.teardown),
                    **record_boot(seen),
                }
            ),
        }
    )
    # Before an installer can come.
    records = note_module(seen, records, change.mode)
    return build_apply(seen.node, labels, records, cordon=True, message=f"labelled for {change.to}")


def _has_come_early(seen: NodeSnapshot, change: Change) -> bool:
    """Whether the plugin of the mode to come may have read another mode, by somebody's label.

    It serves nothing yet. One that is recorded for that mode has read it; on the way back from a
    change that failed, it may never have left. A reboot restarts it anyway.
    """
    from_mode, to = MODES[change.edition, change.from_mode], change.mode
    if change.teardown is not None or from_mode.plugin == to.plugin or not to.reads_label:
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


def plan_restart(seen: NodeSnapshot) -> ApplyNode | None:
    """The restart: record which pods of the plugin will be deleted; `seen.pods` were read just now.

    Whatever started before the labels is among them. A process that resumes deletes only what
    is recorded, so that each is deleted once. None where the node is not safe for it now.
    """
    change = seen.records.change
    assert change is not None
    if not seen.is_out_of_service or find_late_pods(seen, change) is not None:
        return None
    plugin = change.mode.plugin
    recorded = change.model_copy(
        update={
            "phase": ChangePhase.RESTARTING,
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
