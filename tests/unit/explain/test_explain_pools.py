"""One pool: its conditions beside what the controller said, and its nodes by what they wait for."""

from datetime import timedelta

from gpushare import names
from gpushare.analysis.explain.pools import PoolExplanation, explain_pool
from gpushare.analysis.inspect.pools import plan_snapshot
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.api.status import ConditionStatus, PoolStatus
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.names import Condition, Reason
from gpushare.settings import Settings
from tests.kit.values.node_plans import SHARE, a_settled, changing, has_failed
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, a_pool, a_snapshot

LATER = NOW + timedelta(minutes=5)


def explain(pool: Pool, *nodes: Node, pods: tuple[Pod, ...] = ()) -> PoolExplanation:
    return explain_in(a_snapshot(pools=(pool,), nodes=nodes, pods=pods), pool)


def explain_in(snapshot: ClusterSnapshot, pool: Pool) -> PoolExplanation:
    return explain_pool(pool, plan_snapshot(snapshot, Settings(), LATER), (), LATER)


def settled(name: str) -> Node:
    return a_settled(name, allocatable={MEMORY: 15}, gpu_count=1)


def find(explained: PoolExplanation, condition: Condition) -> ConditionStatus:
    (line,) = (line for line in explained.conditions if line.now.type == condition)
    return line.now


def test_nodes_are_grouped_by_what_they_wait_for_the_most_urgent_first() -> None:
    nodes = (has_failed("b"), changing("a"), *(settled(f"c{index}") for index in range(3)))
    explained = explain(
        a_pool(), *nodes, pods=tuple(a_plugin_pod(node=f"c{index}") for index in range(3))
    )
    assert [(g.state, g.reason, len(g.plans)) for g in explained.groups] == [
        (NodeState.FAILED, Reason.DEADLINE_EXCEEDED, 1),
        (NodeState.UPDATING, Reason.COMPONENT_NOT_READY, 1),
        (NodeState.WAITING, Reason.ROLLOUT_HALTED, 3),
    ]
    assert [plan.node for plan in explained.groups[-1].plans] == ["c0", "c1", "c2"]
    assert find(explained, Condition.ROLLOUT_COMPLETE).reason == Reason.ROLLOUT_HALTED
    assert explained.out_of_service == ("a", "b")


def test_conditions_are_set_beside_what_the_controller_said_last() -> None:
    pool = a_pool(schedule="share")
    status = explain(pool, settled("a"), pods=(a_plugin_pod(node="a"),)).status
    told = a_pool(schedule="share", status=status)

    same = explain(told, settled("a"), pods=(a_plugin_pod(node="a"),))
    other = explain(told, changing("a"))

    assert all(line.told == line.now for line in same.conditions)
    assert not same.hears_nothing
    assert any(line.told != line.now for line in other.conditions)


def test_a_spec_that_no_controller_has_acted_on_is_told() -> None:
    assert explain(a_pool()).hears_nothing
    status = PoolStatus(observed_generation=1, conditions=explain(a_pool()).status.conditions)
    assert not explain(a_pool(status=status)).hears_nothing
    assert explain(a_pool(status=status, generation=2)).hears_nothing


def test_a_pool_that_is_being_deleted_counts_what_is_still_to_be_given_back() -> None:
    explained = explain(a_pool(deleting=True), settled("a"), pods=(a_plugin_pod(node="a"),))
    assert explained.releasing == 1
    assert find(explained, Condition.READY).reason == Reason.RELEASING


def test_a_pool_that_observes_counts_the_nodes_that_lack_a_label_whoever_wrote_the_others() -> None:
    pool = a_pool(reconcile="Observe", schedule="share")
    carries = a_node("a", labels={**SHARE, names.LABEL_POOL: pool.name})
    lacks = a_node("b", labels=SHARE)
    message = find(explain(pool, carries, lacks), Condition.NODES_LABELLED).message
    assert message.startswith("1 of 2 nodes do not carry all labels of the pool")
    assert message.endswith("such as node b")
    assert find(explain(pool, carries), Condition.NODES_LABELLED).reason == "AllNodesLabelled"
