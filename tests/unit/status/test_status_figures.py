"""What of a pool's status goes by figures: when sums are told anew, and what hides what."""

from datetime import timedelta

from gpushare.api.pool import Schedule
from gpushare.api.status import PoolStatus, Releasing
from gpushare.core.capacity.node_capacity import NodeCapacity
from gpushare.core.planner.pool_plans import Member, PoolPlans
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.isolation import ContainerIsolation, NodeIsolation
from gpushare.core.status.pool_status import build_status
from gpushare.names import Condition, Reason
from tests.kit.values.node_plans import a_node_plan
from tests.kit.values.objects import NOW, a_gpu_pod, a_pool

DONE = a_node_plan(
    "done", NodeState.READY, Reason.APPLIED, "The node is as its pool specifies", labelled=True
)


def test_the_memory_of_a_node_that_has_just_become_ready_is_told_beside_its_count() -> None:
    pool_plans = PoolPlans()
    before = build_status(a_pool(), pool_plans, NOW)
    capacity = NodeCapacity(gpus=1, total=15, card_total=15)
    pool_plans.put(DONE.node, Member(DONE, capacity=capacity))
    status = build_status(a_pool(status=before), pool_plans, NOW)
    assert status.capacity is not None
    assert (status.nodes.ready, status.capacity.memory_total) == (1, 15)


def test_a_container_that_is_known_to_be_stale_is_told_beside_others_that_are_not_known() -> None:
    share, cgpu = Schedule.SHARE, Schedule.CGPU
    stale = ContainerIsolation(
        DONE.node, a_gpu_pod(), "main", cgpu, share, isolated=False, is_stale=True
    )
    pool_plans = PoolPlans()
    isolation = NodeIsolation(containers=2, stale=1, unknown=1, samples=(stale,))
    pool_plans.put(DONE.node, Member(DONE, isolation=isolation))
    conditions = {each.type: each for each in build_status(a_pool(), pool_plans, NOW).conditions}
    assert conditions[Condition.ISOLATION_CONSISTENT].reason == Reason.STALE_ISOLATION


def test_the_patience_with_a_deletion_runs_from_the_last_node_that_was_given_back() -> None:
    since = NOW - timedelta(minutes=9)
    pool = a_pool(deleting=True, status=PoolStatus(releasing=Releasing(nodes=2, since=since)))
    left = [build_status(pool, PoolPlans(), NOW, held=held).releasing for held in (3, 2, 1)]
    assert [each and each.since for each in left] == [since, since, NOW]
