"""Pools whose spec is flipped: what is recorded of it, and what begins meanwhile."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare.analysis.approve_and_retry import NotCalledForError, judge_start_now
from gpushare.api.pool import Pool
from gpushare.core.cause import Cause
from gpushare.core.planner.planner import Planner
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.rollout.contest import judge_contest, record_changes
from gpushare.core.snapshot.actions import ApplyNode, NodeState
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.pool_status import build_status
from gpushare.names import Condition, Reason
from tests.kit.values.contested_pools import build_contested, flip_schedule, write_spec
from tests.kit.values.node_plans import a_failure, a_settled, an_isolating, under_way
from tests.kit.values.objects import NOW, a_node, a_plugin_pod, a_pool, a_snapshot

WINDOW = timedelta(minutes=10)
SECOND = timedelta(seconds=1)


def judge(pool: Pool, now: datetime = NOW) -> tuple[Cause, datetime] | None:
    return judge_contest(pool, record_changes(pool, now), now, WINDOW)


CONTESTED = build_contested("share", "cgpu")


@pytest.mark.parametrize(
    "schedules",
    [
        ("share",),
        ("share", "cgpu"),
        ("share", "cgpu", "share"),
        ("share", "cgpu", "core_mem", "mps", "topology", "default"),
        ("share", "cgpu", "share", "mps"),
        ("share", "cgpu", "share", "cgpu", "mps"),
    ],
)
def test_a_revert_and_a_new_value_are_no_contest(schedules: tuple[str, ...]) -> None:
    assert judge(flip_schedule(*schedules)) is None


@pytest.mark.parametrize(
    "schedules",
    [
        ("share", "cgpu", "share", "cgpu"),
        ("share", "cgpu", "share", "cgpu", "share", "cgpu", "share"),
        ("share", "cgpu", "mps", "share", "cgpu"),
        ("share", "cgpu", "mps", "topology", "share", "cgpu"),
        ("share", "cgpu", "share", "cgpu", "mps", "cgpu"),
    ],
)
def test_a_field_that_returns_twice_to_earlier_values_is_contested(
    schedules: tuple[str, ...],
) -> None:
    contest = judge(flip_schedule(*schedules))
    assert contest is not None
    cause, until = contest
    assert (cause.reason, until) == (Reason.SPEC_CONTESTED, NOW + WINDOW)


def test_the_message_has_both_managers_the_times_and_the_command() -> None:
    contest = judge(CONTESTED)
    assert contest is not None
    for word in ("writer-0", "writer-1", "03:04:05", "03:03:50", "retry pool/training", "share"):
        assert word in contest[0].message


def test_a_contest_ends_after_ten_quiet_minutes() -> None:
    assert judge(CONTESTED, NOW + WINDOW - SECOND) is not None
    assert judge(CONTESTED, NOW + WINDOW) is None


def test_a_mode_that_changes_every_half_hour_is_not_contested() -> None:
    assert judge(flip_schedule(*["share", "cgpu"] * 3, every=timedelta(minutes=30))) is None


def test_a_retry_ends_a_contest_and_two_more_returns_begin_the_next() -> None:
    retried = CONTESTED.model_copy(update={"retry": "2026-01-02T03:04:06Z"})
    assert judge(retried) is None
    once = write_spec(retried, NOW + SECOND, schedule="share")
    assert judge(once, NOW + SECOND) is None
    twice = write_spec(once, NOW + 2 * SECOND, schedule="cgpu")
    assert judge(twice, NOW + 2 * SECOND) is not None


def test_a_retry_that_is_stored_and_then_removed_by_a_tool_has_ended_the_contest() -> None:
    retried = CONTESTED.model_copy(update={"retry": "2026-01-02T03:04:06Z"})
    changes = record_changes(retried, NOW)
    assert changes != CONTESTED.status.spec_changes
    status = retried.status.model_copy(update={"spec_changes": changes})
    removed = retried.model_copy(update={"status": status, "retry": ""})
    assert record_changes(removed, NOW) is changes
    assert judge(removed) is None


def test_a_selection_that_is_written_in_another_order_is_the_same() -> None:
    first = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    second = {"key": "team", "operator": "Exists"}
    expressions = ([first, second], [second, {**first, "values": ["b", "a"]}])
    pool = a_pool()
    for each, names in zip(expressions * 3, (["a", "b"], ["b", "a"]) * 3, strict=True):
        nodes = {"names": names, "selector": {"match_expressions": each}}
        pool = write_spec(pool, NOW, nodes=nodes)
    assert len([each for each in pool.status.spec_changes if each.field == "nodes"]) == 1
    assert judge(pool) is None


def test_a_field_is_judged_by_itself_whatever_another_one_is_given() -> None:
    pool = a_pool(schedule="share")
    for count, schedule in enumerate(("share", "cgpu", "share", "cgpu")):
        nodes = {"names": [f"n{count}"]}
        pool = write_spec(pool, NOW, schedule=schedule, nodes=nodes)
        for more in range(5):
            nodes = {"names": [f"n{count}-{more}"]}
            pool = write_spec(pool, NOW, schedule=schedule, nodes=nodes)
    assert judge(pool) is not None


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("placement", {"placement": "binpack"}, {"placement": "spread"}),
        ("placement", {}, {"placement": "spread"}),
        ("nodes", {"nodes": {"names": ["a"]}}, {"nodes": {"names": ["a", "b"]}}),
    ],
)
def test_placement_and_nodes_are_contested_too(field: str, one: Any, other: Any) -> None:
    pool = a_pool()
    for spec in (one, other, one, other, one):
        pool = write_spec(pool, NOW, **spec)
    contest = judge(pool)
    assert contest is not None
    assert f"spec.{field} " in contest[0].message


def test_what_is_recorded_is_four_changes_a_field_and_stays_as_it_is_at_rest() -> None:
    pool = flip_schedule(*["share", "cgpu"] * 5)
    changes = pool.status.spec_changes
    assert [each.value for each in changes if each.field == "schedule"] == ["share", "cgpu"] * 2
    assert record_changes(pool, NOW + WINDOW) is changes
    for count in range(50):
        spec: dict[str, Any] = {
            "placement": ("binpack", "spread")[count % 2],
            "nodes": {"names": [f"n{count}"]},
        }
        pool = write_spec(pool, NOW, schedule=("share", "cgpu")[count % 2], **spec)
    assert len(pool.status.spec_changes) == 12


def test_a_long_key_and_a_long_manager_take_little_room_in_the_status() -> None:
    nvidia = {"config": "k" * 60}
    pool = a_pool(edition="NVIDIA", schedule="", nvidia=nvidia)
    pool = pool.model_copy(update={"writers": {"nvidia": "m" * 128}})
    (change, _) = record_changes(pool, NOW)
    assert change.field == "nvidia.config"
    assert max(len(change.value), len(change.manager)) <= 40


# What the planner does with it.


def plan(
    pool: Pool, *nodes: Any, now: datetime = NOW, unrecorded: Iterable[str] = ()
) -> tuple[Planner, dict[str, Any]]:
    planner = Planner(Timing())
    pods = tuple(a_plugin_pod(node=n.name) for n in nodes)
    snapshot = a_snapshot(pools=(pool,), nodes=nodes, pods=pods)
    snapshot = replace(snapshot, unrecorded_pools=frozenset(unrecorded))
    decided = planner.update(snapshot, None, now)
    return planner, {each.plan.node: each.plan for each in decided.decisions}


def test_no_change_begins_in_a_contested_pool() -> None:
    node = a_settled()
    assert plan(flip_schedule("share", "cgpu"), node)[1][node.name].started
    planner, plans = plan(CONTESTED, node)
    assert (plans[node.name].state, plans[node.name].reason, plans[node.name].action) == (
        *(NodeState.WAITING, Reason.SPEC_CONTESTED, None),
    )
    assert planner.plans_by_pool["training"].contest is not None


def test_no_node_joins_a_contested_pool() -> None:
    node = a_node()
    assert plan(flip_schedule("share", "cgpu"), node)[1][node.name].action is not None
    assert plan(CONTESTED, node)[1][node.name].reason is Reason.SPEC_CONTESTED


def test_no_user_is_asked_to_prepare_a_change_for_a_contested_value() -> None:
    reasons = {}
    for pool in (a_pool(schedule="share"), build_contested("cgpu", "share")):
        planner = Planner(Timing())
        planner.update(a_snapshot(pools=(pool,), nodes=(an_isolating(),)), None, NOW)
        (plan,) = planner.plans_by_pool["training"].plans.values()
        reasons[pool.generation] = (plan.reason, plan.state)
    assert [*reasons.values()] == [
        (Reason.REQUIRES_TEARDOWN, NodeState.BLOCKED),
        (Reason.SPEC_CONTESTED, NodeState.WAITING),
    ]


def test_what_a_node_waits_for_is_said_again_once_a_contest_is_over() -> None:
    planner, pool = Planner(Timing()), build_contested("cgpu", "share")
    snapshot = a_snapshot(pools=(pool,), nodes=(an_isolating(),))
    for now, reason in ((NOW, Reason.SPEC_CONTESTED), (NOW + WINDOW, Reason.REQUIRES_TEARDOWN)):
        planner.update(snapshot, None if now == NOW else set(), now)
        (plan,) = planner.plans_by_pool["training"].plans.values()
        assert plan.reason is reason


def test_no_placement_is_written_in_a_contested_pool() -> None:
    pool = a_pool(schedule="share")
    for placement in ("binpack", "spread", "binpack", "spread"):
        pool = write_spec(pool, NOW, schedule="share", placement=placement)
    node = a_settled()
    assert plan(pool, node)[1][node.name].reason is Reason.SPEC_CONTESTED
    quiet = NOW + WINDOW
    assert isinstance(plan(pool, node, now=quiet)[1][node.name].action, ApplyNode)


def test_a_node_that_is_as_a_contested_pool_says_is_ready() -> None:
    node = an_isolating(allocatable={"aliyun.com/gpu-mem": 15})
    planner, _ = plan(CONTESTED, node)
    assert planner.plans_by_pool["training"].counts[NodeState.WAITING] == 0


def test_a_node_that_is_only_cordoned_is_uncordoned_and_a_labelled_one_goes_on() -> None:
    cordoned = a_settled("n1", records=under_way(ChangePhase.CORDONED), owns_cordon=True)
    labelled = an_isolating(
        "n2", records=under_way(ChangePhase.LABELLED, restart=True), owns_cordon=True
    )
    nodes = [replace(each, unschedulable=True) for each in (cordoned, labelled)]
    plans = plan(CONTESTED, *nodes)[1]
    assert (plans["n1"].reason, plans["n1"].action.cordon) == (Reason.SPEC_CONTESTED, False)
    assert plans["n2"].action is not None
    assert plans["n2"].reason is not Reason.SPEC_CONTESTED


def test_a_change_that_failed_is_not_tried_again_for_a_contested_spec() -> None:
    records = under_way(ChangePhase.LABELLED, restart=True, failure=a_failure("training/0"))
    node = an_isolating(records=records, owns_cordon=True, unschedulable=True)
    calm = flip_schedule("share", "cgpu")
    assert plan(calm, node)[1][node.name].message.startswith("The change is tried again")
    assert plan(CONTESTED, node)[1][node.name].state is NodeState.FAILED


def test_the_planner_wakes_when_a_contest_ends() -> None:
    planner = Planner(Timing())
    node = a_settled()
    pods = (a_plugin_pod(node=node.name),)
    snapshot = a_snapshot(pools=(CONTESTED,), nodes=(node,), pods=pods)
    assert planner.update(snapshot, None, NOW).requeue_at == NOW + WINDOW
    (decision,) = planner.update(snapshot, (), NOW + WINDOW).decisions
    assert decision.plan.started
    assert planner.plans_by_pool["training"].contest is None


def test_a_pool_that_is_deleted_or_paused_is_not_held() -> None:
    for update in ({"deleting": True}, {"spec": a_pool(reconcile="Paused").spec}):
        planner, _ = plan(CONTESTED.model_copy(update=update), a_settled())
        assert planner.plans_by_pool["training"].contest is None


def test_nothing_begins_for_a_value_that_the_status_does_not_have_yet() -> None:
    node = a_settled()
    pool = flip_schedule("share", "cgpu")
    assert node.name not in plan(pool, node, unrecorded={"training"})[1]
    assert plan(pool, node)[1][node.name].started


# What users see.


def test_the_conditions_of_a_contested_pool_say_so_even_where_all_nodes_are_ready() -> None:
    planner, _ = plan(CONTESTED)
    status = build_status(CONTESTED, planner.plans_by_pool["training"], NOW)
    reasons = {each.type: (each.status, each.reason) for each in status.conditions}
    for condition in (Condition.READY, Condition.ROLLOUT_COMPLETE):
        assert reasons[condition] == ("False", Reason.SPEC_CONTESTED)
    assert status.window is not None
    assert status.window.state == "Frozen"


def test_start_now_names_the_retry_that_ends_a_contest() -> None:
    planner, _ = plan(CONTESTED, a_settled())
    status = build_status(CONTESTED, planner.plans_by_pool["training"], NOW)
    pool = CONTESTED.model_copy(update={"status": status})
    assert status.plan is not None
    with pytest.raises(NotCalledForError, match="Run: gpushare retry pool/training"):
        judge_start_now(pool, status.plan.hash, "2026-01-02T03:04:05Z")
