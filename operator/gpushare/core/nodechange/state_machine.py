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

from gpushare.core.nodechange import deadline
from gpushare.core.nodechange.deadline import Progress
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
from gpushare.core.snapshot.actions import NO_FACTS, NodeFacts, NodeState, Verdict
from gpushare.names import Reason

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """A rule of a phase; the first line of `decide`'s docstring says what it does, and when."""

    name: str
    decide: Callable[[S], Verdict | None]
    """Return the verdict about a node; None where the rule does not apply."""
    leads_to: tuple[str, ...] = ()
    """Names of the phases that the node can enter by this rule, besides its present phase, and
    Failed by a deadline; only documentation and tests read them."""
    has_deadline: bool = False
    """Whether the change fails when the rule's step takes too long (`DEADLINE`)."""
    shows_conflicts: bool = False
    """Whether the plan names the managers that keep writing the node's labels; from Labelled on it
    does where the rule reports the conflict."""

    @property
    def summary(self) -> str:
        return (self.decide.__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True, slots=True)
class Phase(Generic[S]):
    """A phase of a node's change, with its rules in the order in which they are tried."""

    name: str
    summary: str
    rules: tuple[Rule[S], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The rule that applies to a node, with its verdict, and the facts about its change."""

    phase: Phase[Any]
    rule: Rule[Any]
    verdict: Verdict
    facts: NodeFacts

    def __str__(self) -> str:
        return f"{self.phase.name}: {self.rule.name}"


def _find_rule(rules: Iterable[Rule[S]], step: S) -> tuple[Rule[S], Verdict]:
    for rule in rules:
        if (verdict := rule.decide(step)) is not None:
            return rule, verdict
    raise AssertionError("no rule applies; the last rule of a phase must always apply")


TO_POOLS_MODE: tuple[Rule[MemberStep], ...] = tuple(
    Rule(name, decide, tuple(leads_to), shows_conflicts=True)
    for name, decide, *leads_to in (
        ("mode-in-force", stable.write_labels),
        ("restart-left-to-user", stable.leave_restart_to_user),
        ("transition-refused", stable.refuse),
        ("rolled-back-before", stable.stay_rolled_back),
        ("components-missing", stable.wait_for_components),
        ("workloads-present", stable.wait_for_workloads),
        ("eviction-disabled", stable.report_eviction_disabled),
        ("node-not-ready", stable.wait_for_node),
        ("restart-limit", stable.wait_for_restart_limit),
        ("record-removed", stable.stop_without_record, "Stable"),
        ("start", stable.start, "Cordoned"),
    )
)
STABLE: Phase[MemberStep] = Phase(
    "Stable",
    "No change is under way.",
    (
        Rule("left-alone", stable.leave_alone),
        Rule("deferred", stable.wait_after_abort),
        Rule("mode-contested", stable.yield_to_manager, shows_conflicts=True),
        Rule("reverts-paused", stable.pause_reverts, shows_conflicts=True),
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
_REVERTED = Rule("labels-or-cordon-undone", labelled.revert, has_deadline=True)
_UNREADY = Rule("node-not-ready", labelled.wait_for_node, has_deadline=True)
_REBOOTING = Rule("rebooting", teardown.wait_for_reboot_to_end, has_deadline=True)
LABELLED: Phase[Step] = Phase(
    "Labelled",
    "The labels are written. The deadline runs from here; in a teardown it restarts at each step.",
    (
        _MAINTAINED,
        Rule("teardown-progressed", teardown.note_progress, ("Uninstalled", "Rebooted")),
        _REVERTED,
        _REBOOTING,
        _UNREADY,
        Rule("teardown-needed", teardown.remove_module, has_deadline=True),
        Rule("restart-needed", labelled.record_plugins, ("Restarting",), has_deadline=True),
        Rule("verify", labelled.complete, ("Stable",), has_deadline=True),
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
        Rule("module-unverified", teardown.verify_module, ("Restarting",), has_deadline=True),
    ),
)
_AGAIN = ("Labelled", "Rebooted")  # Restarted once more: labels were undone, or resources stay 0.
RESTARTING: Phase[Step] = Phase(
    "Restarting",
    "The plugin's pods to delete are recorded; after a teardown there may be none.",
    (
        _MAINTAINED,
        Rule(
            "labels-or-cordon-undone",
            labelled.revert,
            _AGAIN,
            has_deadline=True,
        ),
        _UNREADY,
        Rule("plugin-runs", labelled.delete_plugins, ("Labelled",), has_deadline=True),
        Rule("verify", labelled.complete, ("Stable", *_AGAIN), has_deadline=True),
    ),
)
_CHANGING = {each.name: each for each in (LABELLED, UNINSTALLED, REBOOTED, RESTARTING)}


DEADLINE: Phase[Progress] = Phase(
    "Deadline",
    "Asked where a rule with a deadline applies in a phase after Cordoned.",
    (
        Rule("step-failed", deadline.fail_step, ("Failed",)),
        Rule("deadline-restarts", deadline.restart_deadline),
        Rule("timed-out", deadline.time_out, ("Failed",)),
        Rule("restart-once-more", deadline.restart_once_more, _AGAIN),
        Rule("second-restart-failed", deadline.fail_after_second_restart, ("Failed",)),
        Rule("in-time", deadline.go_on),
    ),
)


def _follow(step: FailedStep) -> Verdict | None:
    """Apply Stable's rules from mode-in-force on, if the pool has come to want another mode."""
    if not step.is_superseded:
        return None
    return failed.follow(step, _find_rule(TO_POOLS_MODE, step.member)[1])


FAILED: Phase[FailedStep] = Phase(
    "Failed",
    "It timed out or can't succeed: its steps go on, and its pool halts unless the node joins.",
    (
        Rule("recovered", failed.complete, ("Stable",)),
        Rule("uncordoned-by-user", failed.cordon_again, shows_conflicts=True),
        Rule("job-runs", failed.wait_for_job),
        Rule("superseded", _follow, ("Cordoned",)),
        Rule("tried-again", failed.try_again, tuple(_CHANGING)),
        Rule("rolls-back", failed.roll_back, ("Cordoned",)),
        Rule("stays-failed", failed.stay, shows_conflicts=True),
    ),
)
MACHINE: tuple[Phase[Any], ...] = (STABLE, CORDONED, *_CHANGING.values(), FAILED)


def find_rule(step: MemberStep) -> Found:
    """Find the rule that applies to a member of a pool."""
    change = step.seen.records.change
    if change is None or not change.is_under_way:
        rule, verdict = _find_rule(STABLE.rules, step)
        facts = NO_FACTS
        if rule.shows_conflicts and step.drift.conflicts:
            facts = NodeFacts(conflicts=step.drift.conflicts, requeue_after=step.drift.calm_after)
        return Found(STABLE, rule, verdict, facts)
    facts = NodeFacts(under_way=True)
    if not change.is_labelled:
        return Found(CORDONED, *_find_rule(CORDONED.rules, step), facts)
    if change.failure is None:
        return find_labelled_rule(step)
    _, verdict = _find_rule(_CHANGING[change.phase].rules, step)
    in_conflict = verdict.reason is Reason.LABEL_CONFLICT
    of_failed, verdict = _find_rule(FAILED.rules, FailedStep(step, change.failure, verdict))
    if of_failed.shows_conflicts and in_conflict:
        facts = NodeFacts(conflicts=step.drift.conflicts, under_way=True)
    return Found(FAILED, of_failed, verdict, facts)


def find_labelled_rule(step: Step) -> Found:
    """Find the rule that applies to a node whose change is labelled and has not failed."""
    phase = _CHANGING[step.change.phase]
    rule, verdict = _find_rule(phase.rules, step)
    in_conflict = verdict.reason is Reason.LABEL_CONFLICT
    conflicts = step.drift.conflicts if in_conflict else ()
    if not rule.has_deadline:
        return Found(phase, rule, verdict, NodeFacts(conflicts=conflicts, under_way=True))
    progress = Progress(step, verdict)
    judged, verdict = _find_rule(DEADLINE.rules, progress)
    ends = NodeFacts(
        # A failure has its own message, which names the conflict that led to it.
        conflicts=conflicts if verdict.state is not NodeState.FAILED else (),
        under_way=True,
        deadline=progress.deadline_of(verdict),
        requeue_after=progress.requeue_after_of(verdict),
    )
    return Found(phase, rule if verdict is progress.proposed else judged, verdict, ends)
