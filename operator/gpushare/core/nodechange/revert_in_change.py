"""What somebody undid after the labels of a change were written."""

from dataclasses import replace

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.nodechange.kernel_module import note_module
from gpushare.core.nodechange.ongoing_change import change_labels
from gpushare.core.nodechange.teardown import has_rebooted, spend_word
from gpushare.core.ownership.drift import Claim, judge_drift
from gpushare.core.records.change_record import Change, ChangePhase
from gpushare.core.snapshot.actions import NodeState, StepResult, build_apply
from gpushare.core.snapshot.admissions import record_boot
from gpushare.core.snapshot.effective_mode import running_plugins
from gpushare.core.snapshot.isolation_label import find_isolation_label
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.registry import MODES
from gpushare.names import Reason


def plan_revert_in_change(
    seen: NodeSnapshot, change: Change, claim: Claim, ctx: ReconcileContext
) -> StepResult | None:
    """Labels or the cordon, put back; None where nothing is undone.

    A plugin that started under foreign labels has read them, so it is restarted again; but not
    while a rival keeps writing them. The node stays out of service until its plugin is back: a pod
    that is bound before that is lost.
    """
    wanted = {**change_labels(seen, change), names.LABEL_POOL: change.pool}
    wanted |= find_isolation_label(seen.node, wanted, seen.records)
    verdict = judge_drift(seen.node, seen.records, wanted, claim, ctx.now)
    mode = MODES[change.edition, change.to]
    conflicting = bool(verdict.fought_over & mode.labels.keys())
    if verdict.wait is not None:
        return seen.plan_pause(verdict, ctx.now)
    labels = {key: value for key, value in wanted.items() if key not in verdict.given_up}
    # A value that somebody took away and put back is not ours: who knows what was read meanwhile.
    intact = mode.labels.items() <= seen.node.labels.items()
    intact = intact and mode.labels.keys() <= seen.node.owned
    records = seen.records.model_copy(update={"drift": verdict.record})
    if not intact:
        restart = change.restart or bool(running_plugins(seen.pods, mode))
        again: dict[str, object] = {
            "phase": ChangePhase.LABELLED,
            "plugins": (),
            "restart": restart,
        }
        if change.teardown is not None:
            again = _tear_down_again(seen.node, change, restart=restart)
        if has_rebooted(seen, change):
            # Who was admitted in this boot may have met the foreign label.
            again |= record_boot(seen)
        records = records.model_copy(update={"change": change.model_copy(update=again)})
    settled = labels.items() <= seen.node.labels.items() and seen.is_out_of_service
    settled = settled and records == seen.records
    if settled and not conflicting:
        return None
    plan = seen.plan(NodeState.UPDATING, Reason.LABELLED, "cordoned and labelled again")
    if conflicting:
        # No plugin is restarted, and none is believed, while a rival writes the mode.
        plan = seen.plan_conflict(verdict)
    elif verdict.puts_back:
        plan = replace(plan, reason=Reason.DRIFT_REVERTED, message="labels put back")
    if settled:
        return plan
    records = note_module(seen, records, MODES[change.edition, change.from_mode])
    action = build_apply(seen.node, labels, records, cordon=True, message=plan.message)
    return replace(plan, action=action)


def _tear_down_again(node: Node, change: Change, *, restart: bool) -> dict[str, object]:
    """What a teardown must do once more, since its labels were not there for a while.

    Before the reboot nothing: that restarts the plugin, and what an installer put back is seen
    after it. Later the module is looked for anew, and the plugin reads its labels again.
    """
    assert change.teardown is not None
    if change.phase not in (ChangePhase.REBOOTED, ChangePhase.RESTARTING):
        return {}
    again = {"attempt": change.teardown.attempt + 1}
    teardown = spend_word(node, change.teardown.model_copy(update=again))
    return {"phase": ChangePhase.REBOOTED, "teardown": teardown, "plugins": (), "restart": restart}
