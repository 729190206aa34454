"""What holds of all phases and rules, and for each rule a situation in which it applies."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, get_type_hints

import pytest

from gpushare import names
from gpushare.api.k8s.job import Job, JobState
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.cause import Cause
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.rule import Phase
from gpushare.core.nodechange.state_machine import MACHINE, find_rule
from gpushare.core.ownership.drift import WRITES_PER_PACE
from gpushare.core.records.change_record import ChangePhase, PluginPod
from gpushare.core.records.drift_record import Drift, DriftRevert
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import JobPhase, NodePlan, Verdict
from gpushare.core.snapshot.change_policy import build_policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext, Timing
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    NEVER,
    OURS,
    SHARE,
    a_failure,
    a_settled,
    an_isolating,
    applied,
    cordoned,
    deferred,
    expect_apply,
    failed,
    record_removed,
    replaced,
    under_way,
    unlabelled,
)
from tests.kit.values.objects import (
    LATER,
    NOW,
    PRO_DAEMONSETS,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    installed,
)
from tests.kit.values.teardown_plans import (
    PLUGIN,
    a_job,
    a_teardown,
    job_pool,
    manual_pool,
    teardown_node,
)


def _step(
    node: Node,
    pool: Pool | None = None,
    *pods: Pod,
    now: datetime = NOW,
    jobs: Iterable[Job] = (),
    is_refused: bool = False,
    daemonsets: Iterable[str] = PRO_DAEMONSETS,
    **ctx: Any,
) -> MemberStep:
    """A member of `pool`, which wants cgpu unless it is given."""
    pool = pool or a_pool()
    by_name = {job.name: job for job in jobs}
    seen = NodeSnapshot(node, pods, parse_records(node), jobs=by_name, is_refused=is_refused)
    context = ReconcileContext(now, plugin_daemonsets=installed(daemonsets), **ctx)
    return MemberStep(seen, build_policy(pool, node, Timing()), context, pool)


def _once_ours(schedule: str, drift: Drift | None = None) -> NodeRecords:
    """Of a node whose mode label was written by us."""
    update = {"initial_values": {names.LABEL_SCHEDULE: None}, "drift": drift}
    return applied(schedule).model_copy(update=update)


def _fought_over(*managers: str, writes: int = 0) -> NodeRecords:
    """The mode's label was changed by each of `managers`, and put back so often."""
    key = names.LABEL_SCHEDULE
    reverts = tuple(
        DriftRevert(key=key, manager=each, theirs="default", at=NOW) for each in managers
    )
    drift = Drift(claim="training/1", reverts=reverts, writes=(NOW,) * writes)
    return _once_ours("cgpu", drift)


def _foreign(node: Node) -> Node:
    """The same, whose mode label somebody took over with another value."""
    key = names.LABEL_SCHEDULE
    return replace(node, labels={**node.labels, key: "default"}, owned=node.owned - {key})


def _open(node: Node) -> Node:
    """The same, which a person uncordoned."""
    return replace(node, unschedulable=False, owns_cordon=False)


def _maintained(node: Node) -> Node:
    """The same, whose driver the GPU Operator upgrades."""
    return replace(
        node, labels={**node.labels, "nvidia.com/gpu-driver-upgrade-state": "drain-required"}
    )


def _away(phase: ChangePhase, **more: Any) -> Node:
    return teardown_node(phase, records=a_teardown(phase, not_ready=True), ready=False, **more)


def _joins(phase: ChangePhase, **more: Any) -> Node:
    return cordoned(under_way(phase, initializing=True), **more)


DRIVER = a_plugin_pod("driver-1", daemonset="nvidia-driver-daemonset", ready=False)
WAIT, HOLD, EVICT = (
    a_pool(rollout={"workloads": policy}) for policy in ("Wait", "CordonAndWait", "Evict")
)
BACK = a_pool(rollout={"on_failure": "Rollback"})
ROLLED_BACK = applied(Schedule.SHARE, from_mode="cgpu", failure=a_failure())
LABELLED, UNINSTALLED = teardown_node(ChangePhase.LABELLED), teardown_node(ChangePhase.UNINSTALLED)
REBOOTED = teardown_node(ChangePhase.REBOOTED, boot="boot-2")
REMOVED = a_job(LABELLED, JobPhase.UNINSTALL, JobState.COMPLETE)
SEEN_GONE = a_job(REBOOTED, JobPhase.VERIFY, JobState.COMPLETE)
RESTARTS = under_way(ChangePhase.LABELLED, restart=True)
FAILED_TEARDOWN = a_teardown(ChangePhase.LABELLED, failure=a_failure())
TORN = teardown_node(ChangePhase.LABELLED, records=FAILED_TEARDOWN)
RESTARTING = under_way(ChangePhase.RESTARTING, plugins=(PluginPod(name="old", uid="old"),))
SITUATIONS: dict[str, MemberStep] = {
    "Stable: left-alone": _step(a_node(allocatable={"nvidia.com/mig-1g.5gb": 7})),
    "Stable: deferred": _step(a_node(labels={**SHARE, **OURS}, records=deferred(0.4))),
    "Stable: mode-contested": _step(_foreign(an_isolating(records=_fought_over("", "")))),
    "Stable: reverts-paused": _step(
        _foreign(an_isolating(records=_fought_over("a", "b", writes=WRITES_PER_PACE)))
    ),
    "Stable: label-drifted": _step(_foreign(a_settled(records=_once_ours("share"))), None, PLUGIN),
    "Stable: plugin-restarted": _step(a_settled(), WAIT, a_plugin_pod("another"), a_gpu_pod()),
    "Stable: mode-in-force": _step(an_isolating(), None, PLUGIN, INSTALLER),
    "Stable: restart-left-to-user": _step(a_settled(), NEVER, PLUGIN),
    "Stable: transition-refused": _step(an_isolating(), manual_pool(), PLUGIN),
    "Stable: rolled-back-before": _step(a_settled(records=ROLLED_BACK), BACK, PLUGIN),
    "Stable: components-missing": _step(
        a_settled(), None, PLUGIN, daemonsets=PRO_DAEMONSETS - {"cgpu-installer"}
    ),
    "Stable: workloads-present": _step(a_settled(), WAIT, PLUGIN, a_gpu_pod()),
    "Stable: eviction-disabled": _step(a_settled(), EVICT, PLUGIN, a_gpu_pod()),
    "Stable: node-not-ready": _step(a_settled(ready=False), None, PLUGIN),
    "Stable: restart-limit": _step(a_settled(records=replaced(5)), None, PLUGIN),
    "Stable: record-removed": _step(a_settled(records=record_removed(3)), None, PLUGIN),
    "Stable: start": _step(a_settled(), None, PLUGIN),
    "Cordoned: under-maintenance": _step(_maintained(unlabelled())),
    "Cordoned: pool-changed": _step(unlabelled(), a_pool(schedule="default")),
    "Cordoned: left-alone": _step(unlabelled(allocatable={"nvidia.com/mig-1g.5gb": 7})),
    "Cordoned: uncordoned-by-user": _step(_open(unlabelled())),
    "Cordoned: node-not-ready": _step(unlabelled(ready=False)),
    "Cordoned: rollout-halted": _step(unlabelled(), is_halted=True),
    "Cordoned: window-closed": _step(
        unlabelled(), closed=Cause(Reason.WAITING_FOR_WINDOW, "Waiting for a window")
    ),
    "Cordoned: pods-unreadable": _step(unlabelled(), is_refused=True, now=LATER),
    "Cordoned: pods-remain": _step(unlabelled(), HOLD, a_gpu_pod()),
    "Cordoned: recheck-pods": _step(unlabelled()),
    "Labelled: under-maintenance": _step(_maintained(LABELLED), job_pool()),
    "Labelled: teardown-progressed": _step(LABELLED, job_pool(), jobs=[REMOVED]),
    "Labelled: labels-or-cordon-undone": _step(_open(LABELLED), job_pool()),
    "Labelled: rebooting": _step(_away(ChangePhase.LABELLED), manual_pool()),
    "Labelled: node-not-ready": _step(_joins(ChangePhase.LABELLED, ready=False)),
    "Labelled: teardown-needed": _step(LABELLED, manual_pool()),
    "Labelled: restart-needed": _step(cordoned(RESTARTS)),
    "Labelled: verify": _step(cordoned(under_way(ChangePhase.LABELLED))),
    "Uninstalled: under-maintenance": _step(_maintained(UNINSTALLED), job_pool()),
    "Uninstalled: teardown-progressed": _step(replace(UNINSTALLED, boot_id="boot-2"), job_pool()),
    "Uninstalled: labels-or-cordon-undone": _step(_open(UNINSTALLED), job_pool()),
    "Uninstalled: rebooting": _step(_away(ChangePhase.UNINSTALLED), job_pool()),
    "Uninstalled: reboot-needed": _step(UNINSTALLED, job_pool()),
    "Rebooted: under-maintenance": _step(_maintained(REBOOTED), manual_pool()),
    "Rebooted: teardown-progressed": _step(REBOOTED, job_pool(), jobs=[SEEN_GONE]),
    "Rebooted: labels-or-cordon-undone": _step(_open(REBOOTED), job_pool()),
    "Rebooted: rebooting": _step(_away(ChangePhase.REBOOTED, boot="boot-2"), manual_pool()),
    "Rebooted: module-unverified": _step(REBOOTED, manual_pool()),
    "Restarting: under-maintenance": _step(_maintained(cordoned(RESTARTING))),
    "Restarting: labels-or-cordon-undone": _step(_open(cordoned(RESTARTING))),
    "Restarting: node-not-ready": _step(_joins(ChangePhase.RESTARTING), None, DRIVER),
    "Restarting: plugin-runs": _step(cordoned(RESTARTING), None, a_plugin_pod("old")),
    "Restarting: verify": _step(cordoned(RESTARTING)),
    "Failed: recovered": _step(cordoned(failed(), offered=15), None, PLUGIN, INSTALLER, now=LATER),
    "Failed: uncordoned-by-user": _step(_open(cordoned(failed()))),
    "Failed: job-runs": _step(TORN, a_pool(), jobs=[a_job(LABELLED, JobPhase.UNINSTALL)]),
    "Failed: superseded": _step(cordoned(failed()), a_pool(schedule="default")),
    "Failed: tried-again": _step(cordoned(failed()), a_pool(generation=2)),
    "Failed: rolls-back": _step(cordoned(failed(from_mode=Schedule.DEFAULT)), BACK),
    "Failed: stays-failed": _step(cordoned(failed())),
}
"""By phase and rule."""


@pytest.mark.parametrize("name", SITUATIONS)
def test_in_its_situation_a_rule_applies(name: str) -> None:
    assert str(find_rule(SITUATIONS[name])) == name


@pytest.mark.parametrize("name", ["rollout-halted", "window-closed"])
def test_an_abort_that_the_api_server_refuses_for_long_stays_an_abort(name: str) -> None:
    step = SITUATIONS[f"Cordoned: {name}"]
    seen, late = replace(step.seen, is_refused=True), replace(step.ctx, now=LATER)
    found = find_rule(replace(step, seen=seen, ctx=late))
    assert found.rule.name == name
    assert not expect_apply(found.verdict).cordon


@pytest.mark.parametrize("name", [name for name in SITUATIONS if not name.startswith("Stable")])
def test_no_node_is_uncordoned_nor_anything_on_it_ended_while_another_controller_works_on_it(
    name: str,
) -> None:
    step = SITUATIONS[name]
    seen = replace(step.seen, node=_maintained(step.seen.node))
    found = find_rule(MemberStep(seen, step.policy, step.ctx, step.pool))
    plan = NodePlan("gpu-1", found.verdict).begin()
    assert plan.action is None or expect_apply(plan).cordon or not seen.is_out_of_service


def test_each_rule_has_a_situation() -> None:
    assert list(SITUATIONS) == [f"{phase.name}: {r.name}" for phase in MACHINE for r in phase.rules]


@pytest.mark.parametrize("phase", MACHINE, ids=lambda phase: phase.name)
def test_the_last_rule_of_a_phase_always_applies(phase: Phase[object]) -> None:
    assert get_type_hints(phase.rules[-1].decide)["return"] is Verdict


def test_each_phase_that_a_record_says_has_rules_of_its_own() -> None:
    # An aborted change is no change: the node is Stable until it is tried again.
    assert {*ChangePhase} - {ChangePhase.DEFERRED} <= {phase.name for phase in MACHINE}


def test_each_rule_has_a_name_of_its_own_in_its_phase_and_says_when_it_applies() -> None:
    for phase in MACHINE:
        assert len({rule.name for rule in phase.rules}) == len(phase.rules)
        assert all(rule.summary.endswith(".") for rule in phase.rules)
