"""Defines a node's change as a state machine: its phases, each with its rules in their order.

The first rule that applies decides, and the last rule of a phase always applies. The phase is read
from the node's records, so that it survives a restart: Stable without a change or with one to be
tried again (Deferred), Failed if the change has a failure. `core/rollout/budget.py` admits starts.

docs/nodes.md lists all rules, and which one applies in each phase when something happens.

With CordonAndWait and Evict a change starts although pods run, and waits for them or evicts them.
From Labelled on, recording the plugin's pods and removing the module wait for pods; completing the
change waits for pods of another mode. No deadline runs while the change waits for pods or, as long
as the node is Ready, for a user. None runs while another controller works on the node either, and
an uncordon meanwhile is undone; before Labelled, any other uncordon aborts. An abort back to a
failed change leaves the node cordoned. WholeCard and Restore complete a labelled change first
(`releasing.py`). Completing uncordons the node: the new plugin and resource are there, and the old
ones gone (deviceplugin/verification.py).
"""

from dataclasses import dataclass, replace
from typing import Any

from gpushare.core.nodechange import at_rest, deadline
from gpushare.core.nodechange.at_rest import AtRest
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
from gpushare.core.nodechange.rule import Phase, Rule, find_first
from gpushare.core.nodechange.step import Step
from gpushare.core.snapshot.actions import NodeFacts, NodeState, Verdict
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class Found:
    """The rule that applies to a node, with its verdict, and the facts about its change."""

    phase: Phase[Any]
    rule: Rule[Any]
    verdict: Verdict
    facts: NodeFacts

    def __str__(self) -> str:
        return f"{self.phase.name}: {self.rule.name}"


_TO_POOLS_MODE: tuple[Rule[MemberStep], ...] = tuple(
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
        *_TO_POOLS_MODE,
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
    ),
)


def _follow(step: FailedStep) -> Verdict | None:
    """Apply Stable's rules from mode-in-force on, if the pool has come to want another mode."""
    if not step.is_superseded:
        return None
    found = find_first(_TO_POOLS_MODE, step.member)
    assert found is not None, "the start always applies"
    return failed.follow(step, found[1])


FAILED: Phase[FailedStep] = Phase(
    "Failed",
    "It timed out or can't succeed. It may still recover. Its pool halts unless the node joins.",
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
AT_REST: Phase[AtRest] = Phase(
    "At rest",
    "Asked, in each phase, where the rule that applies has no action now.",
    (
        Rule("module-noted", at_rest.note_module),
        Rule("evict-stale-pods", at_rest.evict_stale_pods),
    ),
)
MACHINE: tuple[Phase[Any], ...] = (STABLE, CORDONED, *_CHANGING.values(), FAILED)


def find_rule(step: MemberStep) -> Found:
    """Find the rule that applies to a member of a pool."""
    found = _find_rule_of_phase(step)
    if found.verdict.action is not None:
        return found
    rest = find_first(AT_REST.rules, AtRest(step, found.verdict))
    if rest is None:
        return found
    rule, verdict = rest
    # A start that is admitted takes the place of the note, and is its own rule's.
    begins_later = verdict.start is not None and verdict.start is found.verdict.start
    return replace(found, rule=found.rule if begins_later else rule, verdict=verdict)


def _find_rule_of_phase(step: MemberStep) -> Found:
    change = step.seen.records.change
    if change is None or not change.is_under_way:
        rule, verdict = STABLE.decide(step)
        applied = step.seen.records.applied
        is_proved = applied is not None and applied.from_mode is not None and step.halt is None
        facts = NodeFacts(verified=is_proved and verdict.state is NodeState.READY)
        if rule.shows_conflicts and step.drift.conflicts:
            conflicts, calm_after = step.drift.conflicts, step.drift.calm_after
            facts = replace(facts, conflicts=conflicts, requeue_after=calm_after)
        return Found(STABLE, rule, verdict, facts)
    facts = NodeFacts(under_way=True)
    if not change.is_labelled:
        return Found(CORDONED, *CORDONED.decide(step), facts)
    if change.failure is None:
        return find_labelled_rule(step)
    _, verdict = _CHANGING[change.phase].decide(step)
    in_conflict = verdict.reason is Reason.LABEL_CONFLICT
    of_failed, verdict = FAILED.decide(FailedStep(step, change.failure, verdict))
    if of_failed.shows_conflicts and in_conflict:
        facts = NodeFacts(conflicts=step.drift.conflicts, under_way=True)
    return Found(FAILED, of_failed, verdict, facts)


def find_labelled_rule(step: Step) -> Found:
    """Find the rule that applies to a node whose change is labelled and has not failed."""
    phase = _CHANGING[step.change.phase]
    rule: Rule[Any]
    rule, verdict = phase.decide(step)
    in_conflict = verdict.reason is Reason.LABEL_CONFLICT
    conflicts = step.drift.conflicts if in_conflict else ()
    if not rule.has_deadline:
        return Found(phase, rule, verdict, NodeFacts(conflicts=conflicts, under_way=True))
    progress = Progress(step, verdict)
    rule, verdict = find_first(DEADLINE.rules, progress) or (rule, verdict)
    ends = NodeFacts(
        # A failure has its own message, which names the conflict that led to it.
        conflicts=conflicts if verdict.state is not NodeState.FAILED else (),
        under_way=True,
        deadline=progress.deadline_of(verdict),
        requeue_after=progress.requeue_after_of(verdict),
    )
    return Found(phase, rule, verdict, ends)
