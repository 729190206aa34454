"""The planner with pools that want a number of the nodes that match."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.pool_status import build_status
from gpushare.names import LABEL_POOL, Condition, Reason
from tests.kit.values.node_plans import SHARE, applied, has_failed
from tests.kit.values.objects import NOW, a_gpu_pod, a_node, a_pool, a_snapshot


def sized(name: str, least: int = 0, most: int | None = None, **more: object) -> Pool:
    """Build a pool of the nodes in the group `gpu` with a size."""
    size = {"min": least, **({} if most is None else {"max": most})}
    nodes = {"selector": {"match_labels": {"group": "gpu"}}, "size": size}
    return a_pool(name, nodes=nodes, **more)


class Planned:
    """A cluster, planned event by event."""

    def __init__(self, pools: Iterable[Pool], nodes: Iterable[Node], pods: Iterable[Pod] = ()):
        self.snapshot = a_snapshot(pools=tuple(pools), nodes=tuple(nodes), pods=tuple(pods))
        self.planner = Planner(Timing())
        self.planner.update(self.snapshot, None, NOW)

    def change(self, snapshot: ClusterSnapshot, *changed: str) -> None:
        self.snapshot = snapshot
        self.planner.update(snapshot, set(changed), NOW)

    def members(self, pool: str) -> list[str]:
        """Return the nodes that the pool has or gets."""
        members = self.planner.plans_by_pool[pool].members.items()
        return sorted(node for node, member in members if member.capacity is not None)

    def ready(self, pool: str) -> tuple[str, str]:
        """Return reason and message of the pool's condition Ready."""
        (found,) = (each for each in self.snapshot.pools if each.name == pool)
        status = build_status(found, self.planner.plans_by_pool[pool], NOW)
        ready = next(each for each in status.conditions if each.type == Condition.READY)
        return ready.reason, ready.message


def settled(pool: str, *names: str) -> list[Node]:
    labels = {**SHARE, LABEL_POOL: pool}
    return [a_node(name, labels, records=applied("share", pool=pool)) for name in names]


def test_a_pool_has_as_many_nodes_as_its_maximum_and_nothing_is_done_to_the_others() -> None:
    planned = Planned([sized("training", most=2)], [a_node(f"n{i}") for i in range(4)])
    assert planned.members("training") == ["n0", "n1"]
    assert planned.planner.plans_by_pool["training"].plans.keys() == {"n0", "n1"}


def test_a_pool_whose_maximum_falls_releases_nodes_without_pods() -> None:
    nodes = settled("training", "n0", "n1", "n2")
    planned = Planned([sized("training", most=1)], nodes, [a_gpu_pod(node="n2")])
    assert planned.members("training") == ["n2"]
    assert sorted(planned.planner.releases.nodes_of("training")) == ["n0", "n1"]


def test_a_node_that_leaves_the_cluster_is_replaced_for_a_minimum() -> None:
    nodes = [*settled("a", "n0", "n1"), *settled("b", "n2", "n3")]
    planned = Planned([sized("a", 2, 2), sized("b", 1)], nodes)
    left = {name: node for name, node in planned.snapshot.nodes.items() if name != "n0"}
    planned.change(replace(planned.snapshot, nodes=left), "n0")
    assert (planned.members("a"), planned.members("b")) == (["n1", "n2"], ["n3"])


def test_a_pod_that_comes_to_a_node_moves_nothing() -> None:
    planned = Planned([sized("a", 1), sized("b", 1)], [*settled("a", "n0"), *settled("b", "n1")])
    pods = {"n0": [a_gpu_pod(node="n0")]}
    planned.change(replace(planned.snapshot, pods=pods), "n0")
    assert (planned.members("a"), planned.members("b")) == (["n0"], ["n1"])


def test_a_pool_below_its_minimum_says_which_pools_have_the_nodes() -> None:
    planned = Planned([sized("a", 2), sized("b", 1)], settled("a", "n0", "n1"))
    reason, message = planned.ready("b")
    assert (reason, "keep them: a." in message) == (Reason.BELOW_MINIMUM, True)


def test_a_pool_that_only_observes_shows_what_it_would_get() -> None:
    observing = sized("preview", 1, 1, reconcile="Observe", priority=900)
    planned = Planned([sized("a", 1), observing], settled("a", "n0", "n1"))
    assert planned.members("a") == ["n0", "n1"]
    assert planned.members("preview") == ["n0"]


def test_a_failed_node_stays_although_the_maximum_falls() -> None:
    nodes = [has_failed("n0"), *settled("training", "n1")]
    planned = Planned([sized("training", most=1)], nodes)
    assert planned.members("training") == ["n0"]


@pytest.mark.parametrize("schedule", ["cgpu", "share"])
def test_a_node_moves_from_pool_to_pool_without_being_released(schedule: str) -> None:
    nodes = settled("a", "n0", "n1")
    planned = Planned([sized("a", 1), sized("b", 1, schedule=schedule)], nodes)
    assert (planned.members("a"), planned.members("b")) == (["n1"], ["n0"])
    assert planned.planner.releases.nodes_of("a") == []


def test_pools_without_a_size_share_nodes_with_one_that_has_one_by_priority() -> None:
    planned = Planned([a_pool("plain"), sized("a", 2, priority=200)], settled("plain", *"012345"))
    assert (len(planned.members("plain")), len(planned.members("a"))) == (0, 6)
    bounded = Planned([a_pool("plain"), sized("a", 2, 2, priority=200)], settled("plain", *"0123"))
    assert (len(bounded.members("plain")), len(bounded.members("a"))) == (2, 2)
