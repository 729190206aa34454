"""What begins, goes on and is let go by a pool's windows and freezes."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.approve_and_retry import NotCalledForError, judge_start_now
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.api.status import PoolStatus, Releasing, StartedNow, WindowStatus
from gpushare.api.windows import Freeze
from gpushare.core.planner.planner import Planner
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.rollout.change_kinds import hash_kinds
from gpushare.core.rollout.start_now import find_started
from gpushare.core.snapshot.actions import ApplyNode, EvictPods, NodeState, RecheckPods
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.pool_status import CLOSED_PERIOD, build_status
from gpushare.core.status.window_status import describe_closing
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    OURS,
    a_failure,
    a_kind,
    a_settled,
    an_isolating,
    applied,
    changing,
    expect_apply,
    expect_change,
    expect_idle,
    follow,
    has_failed,
    on_basic,
    some_settled,
    under_way,
    unlabelled,
)
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, a_pool, a_snapshot
from tests.unit.planner.planner_output import plan_snapshot
from tests.unit.snapshot.test_isolation import PARTS, a_flipped, a_train

OPEN = {"schedule": "0 3 * * *", "duration": "2h"}
"""From 3 to 5: NOW is 03:04:05."""
CLOSED = {"schedule": "0 22 * * *", "duration": "1h", "time_zone": "UTC"}
AT_TEN = NOW.replace(hour=22, minute=0, second=0)
FLIP = a_kind()


def a_windowed(
    *windows: Mapping[str, str],
    freeze: Mapping[str, object] | None = None,
    new_nodes: str = "Anytime",
    **more: Any,
) -> Pool:
    return a_pool(rollout={"windows": windows, "freeze": freeze, "new_nodes": new_nodes}, **more)


def find_reason(pool: Pool, node: Node, now: datetime = NOW) -> Reason:
    plan = plan_snapshot(a_snapshot(pools=(pool,), nodes=(node,)), now)
    (member,) = plan.members[pool.name]
    return member.reason


def test_a_change_waits_for_a_window_and_begins_in_it() -> None:
    assert find_reason(a_windowed(CLOSED), a_settled()) is Reason.WAITING_FOR_WINDOW
    assert find_reason(a_windowed(CLOSED), a_settled(), AT_TEN) is Reason.CORDONED
    assert find_reason(a_windowed(OPEN, CLOSED), a_settled()) is Reason.CORDONED


def test_what_may_take_longer_than_the_window_is_open_does_not_begin() -> None:
    # Without a measure it may take until its deadline, 602 s after its cordon.
    late = AT_TEN + timedelta(minutes=50)
    assert find_reason(a_windowed(CLOSED), a_settled(), late) is Reason.WAITING_FOR_WINDOW
    short = CLOSED | {"duration": "10m"}
    assert find_reason(a_windowed(short), a_settled(), AT_TEN) is Reason.WINDOW_TOO_SHORT


def test_the_longest_of_the_pools_last_changes_says_what_fits() -> None:
    done = an_isolating("gpu-2", records=applied(took_seconds=40.0))
    nodes = (a_settled("gpu-1"), done)
    snapshot = a_snapshot(pools=(a_windowed(CLOSED),), nodes=nodes)
    for seconds_left, reason in ((43, Reason.CORDONED), (41, Reason.WAITING_FOR_WINDOW)):
        now = AT_TEN + timedelta(hours=1, seconds=-seconds_left)
        first, _ = plan_snapshot(snapshot, now).members["training"]
        assert first.reason is reason


def test_a_change_that_is_labelled_is_finished_whatever_the_clock_says() -> None:
    for pool in (a_windowed(CLOSED), a_windowed(freeze={"reason": "an incident"})):
        late = changing(allocatable={MEMORY: 15})
        plugins = (a_plugin_pod(), a_plugin_pod("installer", daemonset="cgpu-installer"))
        pods = tuple(replace(pod, node="gpu-0") for pod in plugins)
        plan = plan_snapshot(a_snapshot(pools=(pool,), nodes=(late,), pods=pods))
        assert isinstance(plan.decided["gpu-0"].action, ApplyNode)


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_node_that_is_only_cordoned_is_let_go_when_the_window_closes(is_frozen: bool) -> None:
    pool = a_windowed(OPEN, freeze={"reason": "an incident"} if is_frozen else None)
    snapshot = a_snapshot(pools=(pool,), nodes=(unlabelled(),))
    now = NOW if is_frozen else NOW.replace(hour=5, minute=0, second=0)
    action = plan_snapshot(snapshot, now).decided["gpu-1"].action
    assert isinstance(action, ApplyNode)
    assert not action.cordon
    assert names.ANNOTATION_CHANGE not in action.annotations


def test_windows_that_can_not_be_read_freeze_the_pool_and_its_status_says_so() -> None:
    pool = a_pool(invalid_windows="spec.rollout.windows.0.timeZone: unknown")
    planner, nodes = Planner(Timing()), (unlabelled(), a_settled("gpu-2"), a_node("gpu-3"))
    decided = planner.update(a_snapshot(pools=(pool,), nodes=nodes), None, NOW).decisions
    assert not any(each.plan.started for each in decided)
    (aborted,) = (each.plan for each in decided if each.plan.node == "gpu-1")
    assert isinstance(aborted.action, ApplyNode)
    assert not aborted.action.cordon
    status = build_status(pool, planner.plans_by_pool["training"], NOW)
    assert status.conditions[0].reason == Reason.SPEC_INVALID
    assert "timeZone" in status.conditions[0].message


def test_labels_that_need_no_restart_are_written_at_any_time() -> None:
    pool = a_windowed(CLOSED, schedule="share", placement="binpack")
    plan = plan_snapshot(a_snapshot(pools=(pool,), nodes=(a_settled(),))).decided["gpu-1"]
    assert isinstance(plan.action, ApplyNode)
    assert plan.action.labels[names.LABEL_PLACEMENT] == "binpack"


def test_a_repair_that_restarts_the_plugin_waits_for_a_window() -> None:
    broken = an_isolating(records=applied(mode_unknown=True), allocatable={MEMORY: 15})
    plugins = (a_plugin_pod(), a_plugin_pod("installer", daemonset="cgpu-installer"))
    for now, reason in ((NOW, Reason.WAITING_FOR_WINDOW), (AT_TEN, Reason.CORDONED)):
        snapshot = a_snapshot(pools=(a_windowed(CLOSED),), nodes=(broken,), pods=plugins)
        (member,) = plan_snapshot(snapshot, now).members["training"]
        assert member.reason is reason


def test_new_nodes_wait_for_a_window_only_where_the_pool_says_so() -> None:
    assert find_reason(a_windowed(CLOSED), a_node()) is Reason.CORDONED
    in_window = a_windowed(CLOSED, new_nodes="InWindow")
    assert find_reason(in_window, a_node()) is Reason.WAITING_FOR_WINDOW
    frozen = a_windowed(freeze={"reason": "an incident"})
    assert find_reason(frozen, a_node()) is Reason.ROLLOUT_FROZEN


def test_a_freeze_holds_until_its_end_and_one_of_all_pools_holds_too() -> None:
    frozen = a_windowed(OPEN, freeze={"reason": "an incident", "until": NOW + timedelta(hours=1)})
    assert find_reason(frozen, a_settled()) is Reason.ROLLOUT_FROZEN
    assert find_reason(frozen, a_settled(), NOW + timedelta(hours=1)) is Reason.CORDONED
    snapshot = a_snapshot(pools=(a_pool(),), nodes=(a_settled(),))
    snapshot = replace(snapshot, freeze=Freeze(reason="an incident"))
    (member,) = plan_snapshot(snapshot).members["training"]
    assert (member.reason, "an incident" in member.message) == (Reason.ROLLOUT_FROZEN, True)


def test_a_planner_wakes_when_a_window_opens_and_when_it_closes() -> None:
    planner, snapshot = (
        Planner(Timing()),
        a_snapshot(pools=(a_windowed(CLOSED),), nodes=tuple(some_settled(2))),
    )
    assert planner.update(snapshot, None, NOW).requeue_at == AT_TEN
    begun = planner.update(snapshot, set(), AT_TEN)
    assert [each.plan.node for each in begun.decisions if each.plan.started] == ["gpu-1"]
    assert begun.requeue_at is not None
    assert begun.requeue_at <= AT_TEN + timedelta(hours=1)


def test_a_clock_that_is_set_back_starts_nothing_twice() -> None:
    planner, pool = Planner(Timing()), a_windowed(CLOSED)
    snapshot = a_snapshot(pools=(pool,), nodes=(a_settled(),))
    assert planner.update(snapshot, None, AT_TEN).decisions[0].plan.started
    under = a_node(
        labels={**CGPU, **OURS},
        records=under_way(ChangePhase.LABELLED, labelled_at=AT_TEN),
        unschedulable=True,
        owns_cordon=True,
    )
    snapshot = replace(snapshot, nodes={"gpu-1": under, "gpu-2": a_settled("gpu-2")})
    before = AT_TEN - timedelta(minutes=30)
    decided = planner.update(snapshot, {"gpu-1", "gpu-2"}, before).decisions
    assert [each.plan.node for each in decided if each.plan.started] == []
    waits = planner.plans_by_pool["training"].plans["gpu-2"]
    assert waits.reason is Reason.WAITING_FOR_WINDOW
    again = planner.update(snapshot, set(), AT_TEN).decisions
    assert "gpu-1" not in [each.plan.node for each in again if each.plan.started]


def test_a_deleted_pool_that_waits_for_its_window_is_not_given_up_and_one_in_it_is() -> None:
    since = NOW - timedelta(hours=9)
    status = PoolStatus(releasing=Releasing(nodes=1, since=since))
    pool = a_windowed(CLOSED, deletion_policy="WholeCard", deleting=True, status=status)
    planner, snapshot = Planner(Timing()), a_snapshot(pools=(pool,), nodes=(a_settled(),))
    plan = planner.update(snapshot, None, NOW)
    assert (plan.release, plan.requeue_at) == ((), AT_TEN)
    told = build_status(pool, planner.plans_by_pool["training"], NOW, held=1).releasing
    assert told is not None
    assert told.since == NOW
    assert planner.update(snapshot, set(), AT_TEN).release == (pool,)


def test_a_process_that_starts_in_the_window_goes_on_to_give_a_deleted_pools_nodes_back() -> None:
    status = PoolStatus(releasing=Releasing(nodes=1, since=AT_TEN - CLOSED_PERIOD))
    pool = a_windowed(CLOSED, deletion_policy="WholeCard", deleting=True, status=status)
    plan = plan_snapshot(a_snapshot(pools=(pool,), nodes=(a_settled(),)), AT_TEN)
    assert plan.release == ()
    assert expect_apply(plan.decided["gpu-1"]).cordon


@pytest.mark.parametrize("is_of_all", [False, True])
def test_a_deleted_pool_is_not_given_up_in_a_freeze(is_of_all: bool) -> None:
    freeze = Freeze(reason="an incident")
    status = PoolStatus(releasing=Releasing(nodes=1, since=NOW - timedelta(hours=9)))
    own = None if is_of_all else freeze.model_dump()
    pool = a_windowed(freeze=own, deletion_policy="WholeCard", deleting=True, status=status)
    snapshot = a_snapshot(pools=(pool,), nodes=(a_settled(),))
    plan = plan_snapshot(replace(snapshot, freeze=freeze if is_of_all else None))
    assert plan.release == ()
    (member,) = plan.members["training"]
    expect_idle(member, NodeState.WAITING, Reason.ROLLOUT_FROZEN)


def test_a_node_that_leaves_its_pool_waits_for_a_window_where_its_plugin_restarts() -> None:
    node, elsewhere = a_settled(), {"names": ["other"]}
    for policy, cordon in (("WholeCard", True), ("Retain", None)):
        pool = a_windowed(CLOSED, nodes=elsewhere, deletion_policy=policy)
        snapshot = a_snapshot(pools=(pool,), nodes=(node,))
        action = plan_snapshot(snapshot).decided["gpu-1"].action
        assert (action is None) is (policy == "WholeCard")
        opened = plan_snapshot(snapshot, AT_TEN).decided["gpu-1"].action
        assert getattr(opened, "cordon", None) is cordon


def test_an_eviction_of_stale_pods_waits_for_a_window() -> None:
    rollout = {"windows": [CLOSED], "stale_workloads": "Evict"}
    pool = a_pool(schedule="share", edition="Basic", rollout=rollout)
    planner = Planner(Timing(), may_evict=True)
    pods = (*PARTS, a_train())
    snapshot = a_snapshot(pools=(pool,), nodes=(a_flipped(),), pods=pods)
    planner.update(snapshot, None, NOW)
    waits = planner.plans_by_pool["training"].plans["gpu-1"]
    expect_idle(waits, NodeState.WAITING, Reason.WAITING_FOR_WINDOW)
    (begun,) = planner.update(snapshot, set(), AT_TEN).decisions
    assert isinstance(begun.plan.action, EvictPods)


def test_a_rollback_begins_and_goes_on_outside_the_windows_and_in_a_freeze() -> None:
    records = on_basic(
        Schedule.SHARE, Schedule.CGPU, ChangePhase.RESTARTING, failure=a_failure(), plugins=()
    )
    labels = {**MODES[Edition.BASIC, Schedule.CGPU].labels, **OURS}
    for more in ({"windows": [CLOSED]}, {"freeze": {"reason": "an incident"}}):
        pool = a_pool(edition="Basic", rollout={"on_failure": "Rollback", **more})
        node = a_node(labels=labels, records=records, unschedulable=True, owns_cordon=True)
        begun = plan_snapshot(a_snapshot(pools=(pool,), nodes=(node,))).decided["gpu-1"]
        assert expect_change(begun).rolls_back is not None
        node = follow(node, begun)
        plan = plan_snapshot(a_snapshot(pools=(pool,), nodes=(node,))).decided["gpu-1"]
        assert isinstance(plan.action, RecheckPods)


def test_who_waited_for_a_window_begins_in_it_whatever_else_holds_the_pool_up() -> None:
    """A halt holds a node up that is in service, and not one that joins."""
    joins = a_node("gpu-2", records=None)
    nodes = (has_failed("gpu-1"), joins)
    for pool in (
        a_windowed(CLOSED, new_nodes="InWindow"),
        a_windowed(freeze={"reason": "an incident", "until": AT_TEN}),
    ):
        planner, snapshot = Planner(Timing()), a_snapshot(pools=(pool,), nodes=nodes)
        planner.update(snapshot, None, NOW)
        assert planner.plans_by_pool["training"].plans["gpu-2"].state is NodeState.WAITING
        begun = planner.update(snapshot, set(), AT_TEN).decisions
        assert [each.plan.node for each in begun if each.plan.started] == ["gpu-2"]


def test_other_kinds_than_those_started_now_begin_when_the_window_opens() -> None:
    pool = a_started("core_mem -> cgpu: apply and restart the plugin; workloads Wait")
    planner, snapshot = Planner(Timing()), a_snapshot(pools=(pool,), nodes=(a_settled(),))
    assert not planner.update(snapshot, None, NOW).decisions[0].plan.started
    (begun,) = planner.update(snapshot, set(), AT_TEN).decisions
    assert begun.plan.started


def test_a_cordoned_node_is_let_go_as_soon_as_the_rest_does_not_fit_any_more() -> None:
    """It needs 600 s from its labels on, and 2 s before."""
    snapshot = a_snapshot(pools=(a_windowed(CLOSED),), nodes=(unlabelled(),))
    for seconds_left, is_let_go in ((601, False), (599, True)):
        now = AT_TEN + timedelta(hours=1, seconds=-seconds_left)
        action = plan_snapshot(snapshot, now).decided["gpu-1"].action
        assert isinstance(action, ApplyNode) is is_let_go


def test_a_failed_change_is_not_tried_again_while_its_pool_is_frozen() -> None:
    node = has_failed("gpu-1")
    for freeze, is_tried in ((None, True), ({"reason": "an incident"}, False)):
        pool = a_windowed(freeze=freeze, retry="again")
        plan = plan_snapshot(a_snapshot(pools=(pool,), nodes=(node,))).decided["gpu-1"]
        assert (plan.message == "The change is tried again") is is_tried


# Started now.


def a_started(*kinds: str, value: str = "", now: str = "") -> Pool:
    value = value or f"{hash_kinds([FLIP])}@{NOW.isoformat()}"
    status = PoolStatus(started_now=StartedNow(value=value, kinds=kinds)) if kinds else PoolStatus()
    return a_windowed(CLOSED, status=status, start_now=now or value)


def test_what_was_started_now_stays_cordoned_and_another_kind_is_let_go() -> None:
    for kind, is_let_go in ((str(FLIP), False), ("core_mem -> cgpu", True)):
        snapshot = a_snapshot(pools=(a_started(kind),), nodes=(unlabelled(),))
        action = plan_snapshot(snapshot).decided["gpu-1"].action
        assert isinstance(action, ApplyNode) is is_let_go


def test_a_plan_that_was_started_now_waits_for_no_window_but_for_a_freeze() -> None:
    started = a_started(str(FLIP))
    assert find_reason(started, a_settled()) is Reason.CORDONED
    assert find_reason(a_started(), a_settled()) is Reason.WAITING_FOR_WINDOW
    frozen = a_windowed(
        CLOSED, freeze={"reason": "x"}, status=started.status, start_now=started.start_now
    )
    assert find_reason(frozen, a_settled()) is Reason.ROLLOUT_FROZEN


def test_what_was_started_now_is_that_plan_alone() -> None:
    begun = find_started(a_started(), [FLIP], NOW, is_changing=False)
    assert begun is not None
    assert begun.kinds == (str(FLIP),)
    # It stays while its nodes change, and is over with them.
    pool = a_started(*begun.kinds)
    assert find_started(pool, [], NOW, is_changing=True) == begun
    over = find_started(pool, [], NOW, is_changing=False)
    assert over is not None
    assert over.kinds == ()
    done = pool.model_copy(update={"status": PoolStatus(started_now=over)})
    assert find_started(done, [FLIP], NOW, is_changing=False) == over
    # Of another plan it starts nothing, nor what comes from a backup.
    value = f"{hash_kinds([FLIP])}@{(NOW - timedelta(days=1)).isoformat()}"
    old = find_started(a_started(value=value), [FLIP], NOW, is_changing=False)
    assert old is not None
    assert old.kinds == ()
    other = find_started(
        a_started(value=f"0123456789ab@{NOW.isoformat()}"), [FLIP], NOW, is_changing=False
    )
    assert other is not None
    assert other.kinds == ()


def test_start_now_is_refused_where_it_is_not_needed() -> None:
    plan = {"hash": "abc", "summary": "share -> cgpu on 1 node"}
    closed, frozen = (WindowStatus(summary="", state=state) for state in ("Closed", "Frozen"))

    def judge(window: WindowStatus | None, seen: str = "abc") -> str:
        status = PoolStatus.model_validate({"plan": plan, "window": window})
        return judge_start_now(a_pool(status=status), seen, "noon").value

    assert judge(closed) == "abc@noon"
    for window, seen in ((None, "abc"), (frozen, "abc"), (closed, "def"), (closed, "")):
        with pytest.raises(NotCalledForError):
            judge(window, seen)


# What is told.


def test_the_status_says_what_is_open_and_the_event_what_is_left() -> None:
    pool = a_windowed(CLOSED)
    planner, snapshot = Planner(Timing()), a_snapshot(pools=(pool,), nodes=tuple(some_settled(4)))
    planner.update(snapshot, None, AT_TEN)
    opened = build_status(pool, planner.plans_by_pool["training"], AT_TEN)
    assert opened.window is not None
    assert (opened.window.state, opened.window.end) == ("Open", AT_TEN + timedelta(hours=1))

    late = AT_TEN + timedelta(hours=2)
    pool = pool.model_copy(update={"status": opened})
    planner.update(a_snapshot(pools=(pool,), nodes=tuple(some_settled(4))), set(), late)
    state = planner.plans_by_pool["training"]
    closed = build_status(pool, state, late)
    assert closed.window is not None
    assert closed.window.next_start == AT_TEN + timedelta(days=1)
    told = describe_closing(pool, state, closed)
    assert "0 of 4" in told
    assert "Sat 2026-01-03 22:00 UTC" in told
    told_once = pool.model_copy(update={"status": closed})
    assert describe_closing(told_once, state, closed) == ""


def test_a_member_of_a_pool_that_observes_stays_one_while_it_leaves_another() -> None:
    gone = a_pool(nodes={"selector": {"match_labels": {"group": "gone"}}})
    watch = a_pool("watch", reconcile="Observe", rollout={"windows": [CLOSED]})
    snapshot = a_snapshot(pools=(gone, watch), nodes=(changing("gpu-0"),))
    planner = Planner(Timing())
    for changed in (None, ["gpu-0"]):
        planner.update(snapshot, changed, NOW)
        assert planner.plans_by_pool["watch"].sums.total == 1
