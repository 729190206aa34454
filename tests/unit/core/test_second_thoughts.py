"""People change their minds in the middle of a rollout, and cordons; nothing is believed for it."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.actions import ApplyNode, NodeState
from gpushare.core.observed import Observed, Timing
from gpushare.core.outlook import judge_rollout
from gpushare.core.plan import Planner
from gpushare.core.records import Applied, Change, Failure, NodeRecords, Step
from gpushare.core.rollout import plan_give_way
from gpushare.names import Reason
from tests.kit.values.node_plans import INSTALLER, a_failure, applied, expect_apply, on_basic
from tests.kit.values.objects import LATER, MEMORY, NOW, a_node, a_plugin_pod, a_pool, a_world

CGPU = {"cgpu": "true", "cgpu.disable.isolation": "false", names.LABEL_POOL: "training"}
BACK = on_basic(Schedule.CGPU, Schedule.SHARE, Step.CORDONED)
FAILED = on_basic(Schedule.SHARE, Schedule.CGPU, Step.RESTARTING, failure=a_failure())
IN_SHARE, IN_CGPU = (applied(mode, edition=Edition.BASIC).applied for mode in ("share", "cgpu"))


def a_member(records: NodeRecords, name: str = "gpu-1", **more: Any) -> Node:
    values: dict[str, Any] = {"unschedulable": True, "owns_cordon": True, **more}
    return a_node(name, CGPU, records=records, allocatable={MEMORY: 15}, **values)


def plan(pool: Pool, *nodes: Node, ready: bool = True) -> Planner:
    """What is planned at LATER for these, on which the plugins run."""
    parts = (a_plugin_pod("plugin-1", ready=ready), INSTALLER)
    pods = tuple(replace(part, node=node.name) for node in nodes for part in parts)
    planner = Planner(Timing())
    planner.update(a_world(pools=(pool,), nodes=nodes, pods=pods), None, LATER)
    return planner


def read_change(action: ApplyNode) -> Change:
    return Change.model_validate_json(action.annotations[names.ANNOTATION_CHANGE])


@pytest.mark.parametrize(
    ("undoes", "before", "plugin"),
    [
        (a_failure(), IN_SHARE, "plugin-1"),
        (None, IN_SHARE, "plugin-1"),
        (a_failure(), None, "plugin-1"),
        (None, IN_CGPU, "misled"),
    ],
    ids=["rollback", "another change", "no record", "a repair that failed"],
)
def test_a_plugin_is_not_believed_when_what_followed_a_failed_change_is_given_up(
    undoes: Failure | None, before: Applied | None, plugin: str
) -> None:
    """Nothing says whether it was restarted before that failed."""
    back = on_basic(Schedule.CGPU, Schedule.SHARE, Step.CORDONED, undoes=undoes)
    back = back.model_copy(update={"applied": before})
    seen = Observed(a_member(back), (a_plugin_pod(plugin),), back)

    change = read_change(plan_give_way(seen, why="a person uncordoned the node", now=NOW))

    assert (change.to, change.step, change.restart) == (Schedule.CGPU, Step.LABELLED, True)


def test_a_change_that_is_given_up_for_the_one_that_failed_has_its_whole_time_again() -> None:
    pool = a_pool(schedule="share", edition="Basic", generation=2)
    book = plan(pool, a_member(BACK, unschedulable=False)).books["training"]
    assert read_change(expect_apply(book.plans["gpu-1"])).labelled_at == LATER


def test_nodes_that_failed_together_do_not_wait_for_each_others_place() -> None:
    pool = a_pool(schedule="share", edition="Basic", generation=2)
    nodes = (a_member(FAILED), a_member(FAILED, "gpu-2"))
    plans = plan(pool, *nodes, ready=False).books["training"].plans
    assert [plans[node.name].reason for node in nodes] == [Reason.CORDONED] * 2


def test_a_failed_node_that_waits_for_an_agreement_is_failed_all_the_same() -> None:
    manual = {"approval": "Manual"}
    pool = a_pool(schedule="share", edition="Basic", generation=2, rollout=manual)
    held = plan(pool, a_member(FAILED)).books["training"].plans["gpu-1"]
    assert held.state is NodeState.FAILED
    assert "approvedPlan" in held.message


def test_a_paused_pool_begins_no_other_change_on_a_node_that_failed() -> None:
    pool = a_pool(schedule="share", edition="Basic", generation=2, reconcile="Paused")
    held = plan(pool, a_member(FAILED)).books["training"].plans["gpu-1"]
    assert (held.reason, held.action) == (Reason.PAUSED, None)


def test_a_node_that_gives_way_is_in_the_middle_of_its_change_all_the_same() -> None:
    pool = a_pool(edition="Basic")
    book = plan(pool, a_member(BACK)).books["training"]
    assert judge_rollout(pool, book)[:2] == (False, Reason.UPDATING)
