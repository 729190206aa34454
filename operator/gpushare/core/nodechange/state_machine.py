"""Defines a node's change as a state machine: its phases, each with its rules in their order.

The first rule that applies decides, and the last rule of a phase always applies. The phase is read
from the node's records, so that it survives a restart: Stable without a change or with one to be
tried again (Deferred), Failed if the change has a failure. `core/rollout/budget.py` admits starts.

What happens when     Stable    Cordoned               Labelled to Restarting     Failed
a user uncordons it   nothing   aborted                cordoned again             cordoned again
it becomes NotReady   no start  aborted                the deadline runs; if it   no rollback yet
                                                       joins, anew when Ready
a GPU pod is bound    no start  aborted or waited for  waited for, see below      no rollback yet
another is at work    no start  stays cordoned         stays cordoned, see below  no rollback yet
pool deleted, Retain  released  aborted, released      finished, released         released, cordoned
With CordonAndWait and Evict a change starts although pods run, and waits for them or evicts them.
From Labelled on, recording the plugin's pods and removing the module wait for pods; completing the
change waits for pods of another mode. No deadline runs while the change waits for pods or, as long
as the node is Ready, for a user. None runs while another controller works on the node either, and
an uncordon meanwhile is undone; before Labelled, any other uncordon aborts. An abort back to a
failed change leaves the node cordoned. WholeCard and Restore complete a labelled change first
(`releasing.py`). Completing uncordons the node: the new plugin and resource are there, and the old
ones gone (deviceplugin/verification.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gpushare.core.nodechange.deadline import judge_progress
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases import (
    cordoned,
    failed,
    labelled,
    maintenance,
    stable,
    teardown,
)
from gpushare.core.nodechange.phases.failed import FailedStep
from gpushare.core.nodechange.step import Step
from gpushare.core.snapshot.actions import StepResult

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """A rule of a phase; the first line of `decide`'s docstring says what it does, and when."""

    name: str
    decide: Callable[[S], StepResult | None]
    """Return the node's next step; None where the rule does not apply."""
    leads_to: tuple[str, ...] = ()
    """Names of the phases that the node can enter by this rule, besides its present phase."""

    @property
    def has_deadline(self) -> bool:
        """Whether the rule leads to Failed when its step takes too long (`deadline.py`)."""
        return "Failed" in self.leads_to

    @property
    def summary(self) -> str:
        return (self.decide.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True, slots=True)
class Phase(Generic[S]):
    """A phase of a node's change, with its rules in the order in which they are tried."""

    name: str
    summary: str
    rules: tuple[Rule[S], ...]

    def decide(self, step: S) -> tuple["Phase[S]", Rule[S], StepResult]:
        """Return this phase, its rule that applies, and that rule's result."""
        return self, *_find_rule(self.rules, step)


def _find_rule(rules: Iterable[Rule[S]], step: S) -> tuple[Rule[S], StepResult]:
    for rule in rules:
        if (result := rule.decide(step)) is not None:
            return rule, result
    raise AssertionError("no rule applies; the last rule of a phase must always apply")


TO_POOLS_MODE: tuple[Rule[MemberStep], ...] = (
    Rule("mode-in-force", stable.write_labels),
    Rule("restart-left-to-user", stable.leave_restart_to_user),
    Rule("transition-refused", stable.refuse),
    Rule("rolled-back-before", stable.stay_rolled_back),
    Rule("components-missing", stable.wait_for_components),
    Rule("workloads-present", stable.wait_for_workloads),
    Rule("eviction-disabled", stable.report_eviction_disabled),
    Rule("node-not-ready", stable.wait_for_node),
    Rule("restart-limit", stable.wait_for_restart_limit),
    Rule("record-removed", stable.stop_without_record, ("Stable",)),
    Rule("start", stable.start, ("Cordoned",)),
)
STABLE: Phase[MemberStep] = Phase(
    "Stable",
    "No change is under way.",
    (
        Rule("left-alone", stable.leave_alone),
        Rule("deferred", stable.wait_after_abort),
        Rule("mode-contested", stable.yield_to_manager),
        Rule("reverts-paused", stable.pause_reverts),
        Rule("label-drifted", stable.revert),
        Rule("plugin-restarted", stable.note_restart),
        *TO_POOLS_MODE,
    ),
)
_MAINTAINED: Rule[Any] = Rule("under-maintenance", maintenance.wait_for_maintenance)
_FROM_CORDONED = ("Stable", "Labelled", "Failed")
"""Phases that can follow Cordoned.

Stable after an abort, Labelled after the recheck of pods; an abort back to a failed change leads to
Failed from a rollback, else to Labelled.
"""
CORDONED: Phase[MemberStep] = Phase(
    "Cordoned",
    "The node is cordoned, and its labels are as they were.",
    (
        _MAINTAINED,
        Rule("pool-changed", cordoned.abort_for_pool, _FROM_CORDONED),
        Rule("left-alone", cordoned.abort_to_leave_alone, _FROM_CORDONED),
        Rule("uncordoned-by-user", cordoned.abort_for_user, _FROM_CORDONED),
        Rule("node-not-ready", cordoned.abort_for_node, _FROM_CORDONED),
        Rule("rollout-halted", cordoned.abort_for_halt, ("Stable",)),
        Rule("window-closed", cordoned.abort_for_window, ("Stable",)),
        Rule("pods-unreadable", cordoned.report_unreadable_pods, _FROM_CORDONED),
        Rule("pods-remain", cordoned.wait_for_pods),
        Rule("recheck-pods", cordoned.recheck_pods, _FROM_CORDONED),
    ),
)
_REVERTED = Rule("labels-or-cordon-undone", labelled.revert, ("Failed",))
_UNREADY = Rule("node-not-ready", labelled.wait_for_node, ("Failed",))
_REBOOTING = Rule("rebooting", teardown.wait_for_reboot_to_end, ("Failed",))
LABELLED: Phase[Step] = Phase(
    "Labelled",
    "The labels are written. The deadline runs from here; in a teardown it restarts at each step.",
    (
        _MAINTAINED,
        Rule("teardown-progressed", teardown.note_progress, ("Uninstalled", "Rebooted")),
        _REVERTED,
        _REBOOTING,
        _UNREADY,
        Rule("teardown-needed", teardown.remove_module, ("Failed",)),
        Rule("restart-needed", labelled.record_plugins, ("Restarting", "Failed")),
        Rule("verify", labelled.complete, ("Stable", "Failed")),
    ),
)
UNINSTALLED: Phase[Step] = Phase(
    "Uninstalled",
    "The kernel module's files are removed, but the module is still loaded.",
    (
        _MAINTAINED,
        Rule("teardown-progressed", teardown.note_progress, ("Rebooted",)),
        _REVERTED,
        _REBOOTING,
        Rule("reboot-needed", teardown.wait_for_reboot),
    ),
)
REBOOTED: Phase[Step] = Phase(
    "Rebooted",
    "The node has rebooted, and the module is not yet verified to be gone.",
    (
        _MAINTAINED,
        Rule("teardown-progressed", teardown.note_progress, ("Restarting",)),
        _REVERTED,
        _REBOOTING,
        Rule("module-unverified", teardown.verify_module, ("Restarting", "Failed")),
    ),
)
_AGAIN = ("Labelled", "Rebooted")  # Restarted once more: labels were undone, or resources stay 0.
RESTARTING: Phase[Step] = Phase(
    "Restarting",
    "The plugin's pods to delete are recorded; after a teardown there may be none.",
    (
        _MAINTAINED,
        Rule("labels-or-cordon-undone", labelled.revert, (*_AGAIN, "Failed")),
        _UNREADY,
        Rule("plugin-runs", labelled.delete_plugins, ("Labelled", "Failed")),
        Rule("verify", labelled.complete, ("Stable", *_AGAIN, "Failed")),
    ),
)
_CHANGING = {each.name: each for each in (LABELLED, UNINSTALLED, REBOOTED, RESTARTING)}


def _follow(step: FailedStep) -> StepResult | None:
    """Apply Stable's rules from mode-in-force on, if the pool has come to want another mode."""
    if not step.is_superseded:
        return None
    return failed.follow(step, _find_rule(TO_POOLS_MODE, step.member)[1])


FAILED: Phase[FailedStep] = Phase(
    "Failed",
    "It timed out or can't succeed: its steps go on, and its pool halts unless the node joins.",
    (
        Rule("recovered", failed.complete, ("Stable",)),
        Rule("uncordoned-by-user", failed.cordon_again),
        Rule("job-runs", failed.wait_for_job),
        Rule("superseded", _follow, ("Cordoned",)),
        Rule("tried-again", failed.try_again, tuple(_CHANGING)),
        Rule("rolls-back", failed.roll_back, ("Cordoned",)),
        Rule("stays-failed", failed.stay),
    ),
)
MACHINE: tuple[Phase[Any], ...] = (STABLE, CORDONED, *_CHANGING.values(), FAILED)


def find_rule(step: MemberStep) -> tuple[Phase[Any], Rule[Any], StepResult]:
    """Return a node's phase, the rule of it that applies, and the step that the rule plans."""
    change = step.seen.records.change
    if change is None or not change.is_under_way:
        phase, rule, result = STABLE.decide(step)
        return phase, rule, stable.finish(step, result) if rule in TO_POOLS_MODE else result
    if not change.is_labelled:
        return CORDONED.decide(step)
    if change.failure is None:
        return find_labelled_rule(step)
    _, _, phase_result = _CHANGING[change.phase].decide(step)
    return FAILED.decide(FailedStep(step, change.failure, phase_result))


def find_labelled_rule(step: Step) -> tuple[Phase[Any], Rule[Any], StepResult]:
    """Return phase, rule and planned step of a node whose change is labelled and has not failed."""
    phase, rule, result = _CHANGING[step.change.phase].decide(step)
    return phase, rule, judge_progress(step, result) if rule.has_deadline else result
