"""What somebody undid after the labels of a change were written."""

from dataclasses import replace

from gpushare import names
from gpushare.api.node import Node
from gpushare.core.actions import NodePlan, NodeState, build_apply
from gpushare.core.admitted import record_boot
from gpushare.core.change import change_labels
from gpushare.core.drift import Claim, judge_drift
from gpushare.core.inforce import running_plugins
from gpushare.core.isolationlabel import find_isolation_label
from gpushare.core.modes import MODES
from gpushare.core.module import note_module
from gpushare.core.observed import Observed, Pass
from gpushare.core.records import Change, Step
from gpushare.core.teardown import has_rebooted, spend_word
from gpushare.names import Reason


def plan_repair(seen: Observed, change: Change, claim: Claim, at: Pass) -> NodePlan | None:
    """Labels or the cordon, put back; None where nothing is undone.

    A plugin that started under foreign labels has read them, so it is restarted again; but not
    while a rival keeps writing them. The node stays out of service until its plugin is back: a pod
    that is bound before that is lost.
    """
    wanted = {**change_labels(seen, change), names.LABEL_POOL: change.pool}
    wanted |= find_isolation_label(seen.node, wanted, seen.records)
    verdict = judge_drift(seen.node, seen.records, wanted, claim, at.now)
    mode = MODES[change.edition, change.to]
    contested = bool(verdict.fought_over & mode.labels.keys())
    if verdict.wait is not None:
        return seen.plan_pause(verdict, at.now)
    labels = {key: value for key, value in wanted.items() if key not in verdict.given_up}
    # A value that somebody took away and put back is not ours: who knows what was read meanwhile.
    intact = mode.labels.items() <= seen.node.labels.items()
    intact = intact and mode.labels.keys() <= seen.node.owned
    records = seen.records.model_copy(update={"drift": verdict.record})
    if not intact:
        restart = change.restart or bool(running_plugins(seen.pods, mode))
        again: dict[str, object] = {"step": Step.LABELLED, "plugins": (), "restart": restart}
        if change.teardown is not None:
            again = _tear_down_again(seen.node, change, restart=restart)
        if has_rebooted(seen, change):
            # Who was admitted in this boot may have met the foreign label.
            again |= record_boot(seen)
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
    records = note_module(seen, records, MODES[change.edition, change.of])
    action = build_apply(seen.node, labels, records, cordon=True, message=plan.message)
    return replace(plan, action=action)


def _tear_down_again(node: Node, change: Change, *, restart: bool) -> dict[str, object]:
    """What a teardown must do once more, since its labels were not there for a while.

    Before the reboot nothing: that restarts the plugin, and what an installer put back is seen
    after it. Later the module is looked for anew, and the plugin reads its labels again.
    """
    assert change.teardown is not None
    if change.step not in (Step.REBOOTED, Step.RESTARTING):
        return {}
    again = {"attempt": change.teardown.attempt + 1}
    teardown = spend_word(node, change.teardown.model_copy(update=again))
    return {"step": Step.REBOOTED, "teardown": teardown, "plugins": (), "restart": restart}
