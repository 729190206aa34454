"""Changes that failed and are taken back, and what each write to a node brought about."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.records.change_record import ChangePhase, PluginPod
from gpushare.core.records.drift_record import Drift, DriftRevert, LabelConflict
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import (
    ApplyNode,
    NodePlan,
    NodeState,
    RecordPlugins,
    build_apply,
)
from gpushare.core.snapshot.write_outcome import ChangeOutcome, WriteOutcome, judge_write
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    OURS,
    a_failure,
    applied,
    change_of,
    deferred,
    expect_applied,
    expect_apply,
    expect_change,
    expect_idle,
    expect_recheck,
    expect_release,
    failed,
    follow,
    halted_by,
    plan_of,
    seconds_to_next,
    under_way,
    written,
)
from tests.kit.values.objects import LATER, MEMORY, NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool

BASIC, PRO = Edition.BASIC, Edition.PROFESSIONAL
OLD, NEW = a_plugin_pod("old"), a_plugin_pod("new")
DAEMONSETS = frozenset({"gpushare-device-plugin-ds", "cgpu-installer"})


def _pool(edition: Edition = BASIC, schedule: str = "cgpu", **more: Any) -> Pool:
    return a_pool(schedule=schedule, edition=edition, rollout={"on_failure": "Rollback"}, **more)


def _node(
    edition: Edition = BASIC,
    of: Schedule = Schedule.SHARE,
    to: Schedule = Schedule.CGPU,
    phase: ChangePhase = ChangePhase.RESTARTING,
    **more: Any,
) -> Node:
    """A cordoned node whose change failed in the pool's first attempt."""
    plugins = (PluginPod(name="old", uid="old"),) if phase is ChangePhase.RESTARTING else ()
    values = {"from_mode": of, "to": to, "plugins": plugins, "failure": a_failure()}
    restart = (edition, of, to) != (PRO, Schedule.DEFAULT, Schedule.SHARE)
    change = under_way(phase, **{"edition": edition, "restart": restart, **values, **more}).change
    records = applied(of, edition=edition, plugins={"old": 0})
    labels = {**MODES[edition, to].labels, **OURS}
    return a_node(
        labels=labels,
        records=records.model_copy(update={"change": change}),
        unschedulable=True,
        owns_cordon=True,
        allocatable={MEMORY: 0},
    )


def _next(node: Node, *pods: Pod, pool: Pool | None = None, minutes: float = 60) -> NodePlan:
    now = NOW + timedelta(minutes=minutes)
    return plan_of(node, pool or _pool(), *pods, daemonsets=DAEMONSETS, now=now)


def _begun() -> Node:
    """The node when its rollback has begun."""
    node = _node()
    return follow(node, _next(node, NEW, INSTALLER))


def _after_look(node: Node, *pods: Pod) -> Node:
    apply = expect_recheck(node, *pods, now=LATER)
    return replace(written(node, apply), labels={"group": "gpu", **apply.labels})


def _rolled_back() -> Node:
    """The node in service again, in the mode that it had."""
    labels = {**MODES[BASIC, Schedule.SHARE].labels, **OURS}
    back: dict[str, Any] = {"plugins": {"new": 0}, "failure": a_failure()}
    records = applied(Schedule.SHARE, edition=BASIC, from_mode=Schedule.CGPU, **back)
    records = records.model_copy(update={"initial_values": dict.fromkeys(labels)})
    return a_node(labels=labels, records=records, allocatable={MEMORY: 15})


def test_a_change_that_failed_is_taken_back_from_the_cordon_on() -> None:
    plan = _next(_node(), NEW, INSTALLER)
    change = expect_change(plan)
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.ROLLED_BACK)
    assert (change.from_mode, change.to) == (Schedule.CGPU, Schedule.SHARE)
    assert change.phase is ChangePhase.CORDONED
    assert (change.restart, change.rolls_back, change.failure) == (True, a_failure(), None)
    assert expect_apply(plan).cordon
    assert halted_by(plan)


def test_where_the_plugins_follow_the_labels_none_is_restarted_on_the_way_back() -> None:
    node = _node(PRO, Schedule.DEFAULT, Schedule.SHARE)
    change = expect_change(_next(node, pool=_pool(PRO, "share")))
    assert (change.from_mode, change.to) == (Schedule.SHARE, Schedule.DEFAULT)
    assert change.restart is False


@pytest.mark.parametrize(
    ("node", "pool", "why"),
    [
        (_node(PRO, phase=ChangePhase.LABELLED), _pool(PRO), "needs a teardown"),
        (
            _node(PRO, Schedule.DEFAULT, Schedule.DISABLED, ChangePhase.LABELLED),
            _pool(PRO, "disabled"),
            "needs manual steps",
        ),
        (_node(from_mode=Schedule.CGPU), _pool(), "no former mode"),
        (_node(), _pool(device_plugin={"restart": "Never"}), "devicePlugin.restart is Never"),
    ],
    ids=["a teardown", "a person", "a restart alone", "no restart allowed"],
)
def test_what_can_not_be_taken_back_stays_cordoned_and_says_why(
    node: Node, pool: Pool, why: str
) -> None:
    plan = _next(node, OLD, a_gpu_pod(), pool=pool)
    assert plan.state is NodeState.FAILED
    assert halted_by(plan)
    assert why in plan.message
    assert "stays cordoned" in plan.message


def test_pods_that_the_way_back_would_harm_are_waited_for() -> None:
    plan = _next(_node(), a_gpu_pod(phase="Pending"))
    assert (plan.state, plan.action) == (NodeState.FAILED, None)
    assert "rollback to share waits. Pods that have not started" in plan.message
    assert _next(_node()).reason is Reason.ROLLED_BACK


def test_a_node_that_offers_mig_devices_is_not_rolled_back() -> None:
    plan = _next(replace(_node(), allocatable={"nvidia.com/mig-1g.5gb": 7}))
    assert (plan.state, plan.action) == (NodeState.FAILED, None)
    assert "rollback to share waits" in plan.message


def test_a_node_that_joins_is_not_rolled_back() -> None:
    plan = _next(_node(initializing=True))
    assert (plan.state, plan.action, halted_by(plan)) == (NodeState.FAILED, None, "")


def _with_change(node: Node, **more: object) -> Node:
    records = parse_records(node)
    change = change_of(records).model_copy(update=more)
    return replace(node, annotations=records.model_copy(update={"change": change}).annotations())


def test_a_rollback_that_fails_is_not_rolled_back() -> None:
    node = _with_change(_after_look(_begun(), NEW, INSTALLER), failure=a_failure())
    plan = _next(node, NEW, INSTALLER, minutes=80)
    assert (plan.state, plan.action) == (NodeState.FAILED, RecordPlugins("gpu-1"))
    assert halted_by(plan)


def test_until_a_rollback_is_written_its_change_is_looked_at_when_it_may_be_verified() -> None:
    started = replace(NEW, ready_since=NOW + timedelta(minutes=60, seconds=-5))
    plan = _next(replace(_node(), allocatable={MEMORY: 15}), started, INSTALLER)
    assert plan.reason is Reason.ROLLED_BACK
    # The plugin must have been Ready for 12 s.
    assert seconds_to_next(plan) == 7


@pytest.mark.parametrize("phase", [ChangePhase.LABELLED, ChangePhase.RESTARTING])
def test_a_dropped_rollback_never_takes_the_old_plugin_for_one_that_read_the_labels(
    phase: ChangePhase,
) -> None:
    """The change may have failed before its plugin was deleted."""
    node, pool = _node(phase=phase), _pool(generation=2)
    node = follow(node, _next(node, OLD, INSTALLER, pool=_pool()))
    node = follow(node, _next(node, OLD, INSTALLER, pool=pool))
    node = follow(node, _next(node, OLD, INSTALLER, pool=pool))
    node = replace(node, allocatable={MEMORY: 15})
    assert isinstance(_next(node, OLD, INSTALLER, pool=pool).action, RecordPlugins)


def test_a_pod_that_came_meanwhile_ends_the_rollback_and_it_is_tried_again_later() -> None:
    starting = a_gpu_pod(phase="Pending")
    node = _after_look(_begun(), NEW, INSTALLER, starting)
    assert node.unschedulable
    held = _next(node, NEW, INSTALLER, starting)
    assert held.state is NodeState.FAILED
    assert halted_by(held)
    assert _next(node, NEW, INSTALLER).reason is Reason.ROLLED_BACK


def test_a_rollback_whose_pods_can_not_be_read_still_halts_by_what_failed() -> None:
    node = _node(phase=ChangePhase.CORDONED, failure=None, rolls_back=a_failure())
    now = NOW + timedelta(minutes=60)
    plan = plan_of(node, _pool(), NEW, INSTALLER, daemonsets=DAEMONSETS, now=now, is_refused=True)
    assert (plan.state, bool(plan.halt and plan.halt.resumes)) == (NodeState.FAILED, False)
    assert halted_by(plan).startswith("Node gpu-1 failed in phase Restarting")


def test_the_node_that_is_back_is_in_service_and_remembers_the_failure() -> None:
    new = (PluginPod(name="new", uid="new"),)
    node = _after_look(_begun(), NEW, INSTALLER)
    node = _with_change(node, phase=ChangePhase.RESTARTING, plugins=new)
    node = replace(node, allocatable={MEMORY: 15})
    plan = _next(node, a_plugin_pod("newer"), INSTALLER, minutes=65)
    assert not expect_apply(plan).cordon
    record = expect_applied(plan)
    assert (record.schedule, record.from_mode) == (Schedule.SHARE, Schedule.CGPU)
    assert record.failure == a_failure()


def test_a_node_that_was_rolled_back_has_failed_until_somebody_resumes_it() -> None:
    plan = _next(_rolled_back(), NEW, INSTALLER)
    expect_idle(plan, NodeState.FAILED, Reason.ROLLED_BACK)
    assert a_failure().message in plan.message
    assert halted_by(plan)


@pytest.mark.parametrize(
    ("pool", "retry"),
    [(_pool(generation=2), ""), (_pool(retry="now"), ""), (_pool(), "now")],
    ids=["the spec changed", "the pool's annotation", "the node's annotation"],
)
def test_a_rolled_back_node_begins_anew_in_another_attempt(pool: Pool, retry: str) -> None:
    plan = _next(replace(_rolled_back(), retry=retry), NEW, INSTALLER, pool=pool)
    change = expect_change(plan)
    assert (change.from_mode, change.to, change.rolls_back) == (Schedule.SHARE, Schedule.CGPU, None)
    assert halted_by(plan) == ""


def test_giving_a_node_back_is_not_rolled_back() -> None:
    node = _node(PRO, Schedule.SHARE, Schedule.DEFAULT, ChangePhase.LABELLED, restart=False)
    rollout = {"on_failure": "Rollback"}
    pool = a_pool(deleting=True, schedule="share", deletion_policy="WholeCard", rollout=rollout)
    plan = expect_release(node, pool=pool, now=LATER)
    assert (plan.state, plan.action) == (NodeState.FAILED, None)


def test_a_node_that_leaves_on_its_way_back_stays_cordoned() -> None:
    pool = a_pool(edition=BASIC, deleting=True)
    plan = expect_release(_begun(), NEW, pool=pool, now=LATER)
    assert expect_apply(plan).cordon
    released = expect_release(follow(_begun(), plan), NEW, pool=pool, now=LATER)
    assert "it stays cordoned" in released.message


LABELS = {**CGPU, **OURS}
ON_ITS_WAY_BACK = under_way(ChangePhase.RESTARTING, rolls_back=a_failure())


def write(before: NodeRecords, after: NodeRecords, *, now: Any = LATER) -> WriteOutcome:
    node = a_node(labels=LABELS, records=before)
    return judge_write(node, build_apply(node, LABELS, after, cordon=False, message=""), now)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (under_way(ChangePhase.RESTARTING), applied(), ChangeOutcome.COMPLETED),
        (failed(), applied(), ChangeOutcome.COMPLETED),
        (ON_ITS_WAY_BACK, applied(), ChangeOutcome.ROLLED_BACK),
        (under_way(ChangePhase.RESTARTING), failed(), ChangeOutcome.FAILED),
        (under_way(ChangePhase.CORDONED), applied(), ChangeOutcome.WITHDRAWN),
        (under_way(ChangePhase.CORDONED), deferred(1), ChangeOutcome.WITHDRAWN),
        (applied(), under_way(ChangePhase.CORDONED), None),
        (under_way(ChangePhase.CORDONED), under_way(ChangePhase.LABELLED), None),
        (under_way(ChangePhase.LABELLED), under_way(ChangePhase.RESTARTING), None),
        (applied(), applied(), None),
        (NodeRecords(), applied(), None),
        (deferred(1), under_way(ChangePhase.CORDONED), None),
        (deferred(1), applied(), None),
        (failed(), failed(), None),
        (failed(), under_way(ChangePhase.CORDONED, rolls_back=a_failure()), None),
        (under_way(ChangePhase.CORDONED, rolls_back=a_failure()), failed(), None),
    ],
)
def test_a_change_ends_with_the_write_that_says_so_and_with_no_other(
    before: NodeRecords, after: NodeRecords, outcome: ChangeOutcome | None
) -> None:
    assert write(before, after).change is outcome


@pytest.mark.parametrize(("ended", "seconds"), [(LATER, 3600), (NOW - timedelta(hours=1), 0)])
def test_a_change_took_as_long_as_from_its_begin(ended: datetime, seconds: float) -> None:
    """None ends before that, whatever the clock says."""
    assert write(under_way(ChangePhase.RESTARTING), applied(), now=ended).change_seconds == seconds


def a_repair(minutes: int) -> DriftRevert:
    at = NOW + timedelta(minutes=minutes)
    return DriftRevert(key=names.LABEL_PLACEMENT, manager="kubectl", theirs="spread", at=at)


CONFLICT = LabelConflict(key=names.LABEL_PLACEMENT, manager="kubectl", ours="binpack", since=NOW)


def drifted(*reverts: DriftRevert, conflicts: tuple[LabelConflict, ...] = ()) -> NodeRecords:
    return applied().model_copy(update={"drift": Drift(reverts=reverts, conflicts=conflicts)})


def test_each_label_that_is_put_back_is_a_flip() -> None:
    once = drifted(a_repair(1))
    assert write(applied(), once).flips == 1
    assert write(once, drifted(a_repair(1), a_repair(2))).flips == 1
    assert write(once, once).flips == 0
    # One that is remembered no more is none.
    assert write(drifted(a_repair(1), a_repair(2)), drifted(a_repair(2))).flips == 0


def test_the_first_flip_of_a_manager_and_key_is_told_from_those_that_follow() -> None:
    first, second = a_repair(1), a_repair(2)
    other = a_repair(2).model_copy(update={"manager": "nfd-master"})
    assert write(applied(), drifted(first)).first_flips == (first,)
    assert write(drifted(first), drifted(first, second)).first_flips == ()
    assert write(drifted(first), drifted(first, other)).first_flips == (other,)
    # The one before was longer ago than changes that belong together.
    assert write(drifted(first), drifted(second)).first_flips == (second,)


def test_a_manager_that_is_given_way_to_is_a_conflict_once() -> None:
    fought = drifted(conflicts=(CONFLICT,))
    assert write(drifted(a_repair(1)), fought).conflicts == 1
    assert write(fought, fought).conflicts == 0
    assert write(fought, applied()).conflicts == 0


def test_a_node_that_is_not_ready_is_rolled_back_once_it_is() -> None:
    away = replace(_node(), ready=False)
    plan = _next(away, OLD)
    assert plan.state is NodeState.FAILED
    assert not isinstance(plan.action, ApplyNode)
    assert expect_change(_next(_node(), OLD)).rolls_back is not None


def test_a_repair_of_a_node_that_came_back_too_late_is_no_rollback() -> None:
    """Its plugin may have read foreign labels since: it is restarted as on any other node."""
    late = applied(edition=BASIC, from_mode="share", plugins={"old": 0}, failure=a_failure())
    labels = {**MODES[BASIC, Schedule.CGPU].labels, **OURS}
    node = a_node(labels=labels, records=late, allocatable={MEMORY: 15})
    node = replace(
        node,
        owned=frozenset({names.LABEL_POOL, *node.annotations}),
        managers=dict.fromkeys(labels.keys() - OURS.keys(), "kubectl-label"),
    )
    node = follow(node, _next(node, a_plugin_pod("new"), INSTALLER))
    plan = _next(node, a_plugin_pod("new"), INSTALLER)
    assert plan.reason is Reason.CORDONED
    assert "rolled back" not in plan.message
