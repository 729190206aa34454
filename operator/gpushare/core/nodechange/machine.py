"""A node's change as a state machine: its phases, and for each its rules in their order.

The first rule that applies wins, and the last of a phase always applies. A phase is read from the
node (`Change.phase`), so a process that starts anew goes on wherever the node says. Without a
record, and with one that says Deferred (aborted, to be tried again), a node is Stable; Starting is
what Stable's last rule goes on with. From Labelled on `failure.py` judges what a rule says: what
takes too long fails, and a change that failed keeps its phase. The machine knows no budget: a start
is admitted by `core/rollout/admission.py`. Around the rules: what follows a
change that failed and that the pool does not want any more is in `reconcile_node.py`; a node that
leaves its pool in `releasing.py`; what is written once the pods were read again in `recheck.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from gpushare.core.nodechange import at_rest, cordoned, failure, labelled, start, teardown
from gpushare.core.nodechange.at_rest import MemberStep, describe_conflicts
from gpushare.core.nodechange.start import StartStep
from gpushare.core.nodechange.step import Step
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import StepResult
from gpushare.names import Reason

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """One rule; the first line of `decide`'s docstring says when it applies, and what follows."""

    name: str
    decide: Callable[[S], StepResult | None]
    """None where the rule does not apply."""
    has_deadline: bool = True
    """From Labelled on: whether what it waits for can take too long."""

    @property
    def summary(self) -> str:
        return (self.decide.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True, slots=True)
class Phase(Generic[S]):
    """Where a node is, or is on its way to, and its rules in their order."""

    name: str
    summary: str
    rules: tuple[Rule[S], ...]

    def decide(self, step: S) -> tuple[Rule[S], StepResult]:
        """The rule that applies, and what it says."""
        for rule in self.rules:
            if (result := rule.decide(step)) is not None:
                return rule, result
        raise AssertionError(f"no rule of phase {self.name} applies; its last must always do")


STARTING: Phase[StartStep] = Phase(
    "Starting",
    "What leads from the mode in force to the pool's.",
    (
        Rule("mode-in-force", start.write_labels),
        Rule("restart-left-to-user", start.leave_restart_to_user),
        Rule("transition-refused", start.refuse),
        Rule("rolled-back", start.stay_rolled_back),
        Rule("components-missing", start.wait_for_components),
        Rule("workloads-present", start.wait_for_workloads),
        Rule("eviction-disabled", start.report_eviction_disabled),
        Rule("node-not-ready", start.wait_for_node),
        Rule("start", start.start),
    ),
)


def decide_start(step: StartStep) -> StepResult:
    """What leads to the pool's mode."""
    return STARTING.decide(step)[1]


def _reach_mode(step: MemberStep) -> StepResult:
    """The rules of Starting decide."""
    plan = decide_start(StartStep(step, step.effective_mode, step.verdict))
    if step.verdict.conflicts:
        plan = describe_conflicts(plan, step.seen.plan_conflict(step.verdict))
    if step.verdict.reverts and plan.start is not None:
        plan = replace(plan, start=replace(plan.start, reason=Reason.DRIFT_REVERTED))
    return at_rest.keep_cordon(step, plan)


STABLE: Phase[MemberStep] = Phase(
    "Stable",
    "No change is under way.",
    (
        Rule("left-alone", at_rest.leave_alone),
        Rule("deferred", at_rest.wait_after_abort),
        Rule("mode-contested", at_rest.yield_to_manager),
        Rule("reverts-paused", at_rest.pause_reverts),
        Rule("label-drifted", at_rest.revert),
        Rule("plugin-restarted", at_rest.note_restart),
        Rule("mode", _reach_mode),
    ),
)
CORDONED: Phase[MemberStep] = Phase(
    "Cordoned",
    "The node is cordoned. An abort uncordons it, or goes back to the change that failed before.",
    (
        Rule("pool-changed", cordoned.abort_for_pool),
        Rule("uncordoned-by-user", cordoned.abort_for_user),
        Rule("node-not-ready", cordoned.abort_for_node),
        Rule("pods-unreadable", cordoned.report_unreadable_pods),
        Rule("rollout-halted", cordoned.abort_for_halt),
        Rule("pods-remain", cordoned.wait_for_pods),
        Rule("recheck-pods", cordoned.recheck_pods),
    ),
)
_TRIED_AGAIN = Rule("tried-again", failure.try_again, has_deadline=False)
_PROGRESS = Rule("teardown-progressed", teardown.note_progress, has_deadline=False)
_REVERTED = Rule("labels-or-cordon-undone", labelled.revert)
_AWAY = Rule("node-away", teardown.wait_for_return)
LABELLED: Phase[Step] = Phase(
    "Labelled",
    "The labels are written. From here the deadline runs.",
    (
        _TRIED_AGAIN,
        _PROGRESS,
        _REVERTED,
        _AWAY,
        Rule("teardown-needed", teardown.remove_module),
        Rule("restart-needed", labelled.record_plugins),
        Rule("verify", labelled.complete),
    ),
)
UNINSTALLED: Phase[Step] = Phase(
    "Uninstalled",
    "The kernel module's files are removed, and it is still loaded.",
    (_TRIED_AGAIN, _PROGRESS, _REVERTED, _AWAY, Rule("reboot-needed", teardown.wait_for_reboot)),
)
REBOOTED: Phase[Step] = Phase(
    "Rebooted",
    "The node is in another boot, and nobody has shown that the module is gone.",
    (_TRIED_AGAIN, _PROGRESS, _REVERTED, _AWAY, Rule("module-unverified", teardown.verify_module)),
)
RESTARTING: Phase[Step] = Phase(
    "Restarting",
    "The plugin's pods that must go are recorded.",
    (
        _TRIED_AGAIN,
        _REVERTED,
        Rule("plugin-runs", labelled.delete_plugins),
        Rule("verify", labelled.complete),
    ),
)
MACHINE = (STABLE, STARTING, CORDONED, LABELLED, UNINSTALLED, REBOOTED, RESTARTING)
_LABELLED = {
    ChangePhase(phase.name): phase for phase in (LABELLED, UNINSTALLED, REBOOTED, RESTARTING)
}


def decide_labelled(step: Step) -> StepResult:
    """What a change needs next whose labels are written."""
    rule, result = _LABELLED[step.change.phase].decide(step)
    return failure.judge_progress(step, result) if rule.has_deadline else result


def decide_cordoned(step: MemberStep) -> StepResult:
    """What a change needs next that has cordoned its node."""
    return CORDONED.decide(step)[1]


def decide_at_rest(step: MemberStep) -> StepResult:
    """What a node needs next on which no change is under way."""
    return STABLE.decide(step)[1]
