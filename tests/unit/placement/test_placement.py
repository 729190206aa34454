"""Which pods of a queue get a node, and what is said of the others."""

from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.placement.place import place_likely, place_pods
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.resources.host import HostResources
from gpushare.api.k8s.taint import Taint
from gpushare.settings import Settings
from tests.kit.values.manifests import build_pod
from tests.kit.values.objects import a_gpu_pod, a_node, a_pool
from tests.kit.values.placements import (
    a_filled_pool,
    a_member,
    a_placement_cluster,
    a_queue,
    a_queued,
    list_pending,
    parse_queued,
)

OPEN = {"gpushare.io/isolation": "none"}


def _asks_host(name: str, **requests: str) -> dict[str, object]:
    pod = build_pod(name)
    pod["spec"]["containers"][0]["resources"]["requests"] |= requests
    return pod


def test_admission_assigns_each_pod_to_its_pool() -> None:
    train = a_pool("train", nodes={"selector": {"match_labels": {"group": "t"}}})
    infer = a_pool("infer", "share", nodes={"selector": {"match_labels": {"group": "i"}}})
    nodes = [a_member("t1", train, group="t"), a_member("i1", infer, group="i")]
    queue = [a_queued("isolated"), a_queued("open", annotations=OPEN)]
    placed = place_pods(a_placement_cluster(nodes, train, infer), queue)
    assert [(each.pool, each.node) for each in placed.pods] == [("train", "t1"), ("infer", "i1")]
    assert [(pool.name, pool.placed) for pool in placed.pools] == [("infer", 1), ("train", 1)]


def test_admission_sees_the_pool_as_the_pods_before_left_it() -> None:
    pools = [a_pool(n, nodes={"selector": {"match_labels": {"group": n}}}) for n in ("a", "b")]
    nodes = [a_member(f"n-{pool.name}", pool, group=pool.name) for pool in pools]
    placed = place_pods(a_placement_cluster(nodes, *pools), a_queue(10, 10, 5, 5))
    assert [each.pool for each in placed.pods] == ["a", "b", "a", "b"]


def test_a_pod_keeps_the_pool_that_it_was_assigned_to() -> None:
    pools = [a_pool(n, nodes={"selector": {"match_labels": {"group": n}}}) for n in ("a", "b")]
    nodes = [a_member(f"n-{pool.name}", pool, group=pool.name) for pool in pools]
    queue = a_queue(10, 10, selects={names.LABEL_POOL: "b"})
    placed = place_pods(a_placement_cluster(nodes, *pools), queue)
    assert [(each.pool, each.node) for each in placed.pods] == [("b", "n-b"), ("b", "")]


def test_a_pod_stays_pending_in_the_words_of_explain() -> None:
    cause = a_filled_pool(10, 8, nodes=1).pods[1].cause
    assert cause is not None
    assert cause.reason == "NoFreeBlock"
    assert cause.message == (
        "Node n0: the pod needs 8 GiB free on one card, but the node has 5 GiB free"
    )
    assert cause.remedy == (
        "On node n0: wait until pods free 3 GiB more, or ask for 5 GiB on one card"
    )


def test_a_later_pod_that_fits_runs_although_an_earlier_one_waits() -> None:
    assert list_pending(a_filled_pool(10, 8, 5)) == ["p1"]


def test_a_pod_that_no_pool_accepts_is_told_what_admission_says() -> None:
    pool = a_pool(schedule="default")
    cluster = a_placement_cluster([a_member("n", pool)], pool)
    cause = place_pods(cluster, a_queue(4)).pods[0].cause
    assert cause is not None
    assert cause.reason == "NoEligiblePool"


def test_a_pod_that_admission_refuses_takes_no_room() -> None:
    pool = a_pool(schedule="default")
    cluster = a_placement_cluster(
        [a_member("n", pool)], pool, setup=Settings(on_no_pool=names.ON_NO_POOL_DENY)
    )
    placed = place_pods(cluster, a_queue(4))
    assert placed.pods[0].cause is not None
    assert placed.pools[0].capacity.memory_requested == 0


def test_the_labels_of_the_namespace_count() -> None:
    pools = [a_pool(n, nodes={"selector": {"match_labels": {"group": n}}}) for n in ("a", "b")]
    nodes = [a_member(f"n-{pool.name}", pool, group=pool.name) for pool in pools]
    default = Namespace("default", {names.LABEL_DEFAULT_POOL: "b"})
    cluster = a_placement_cluster(nodes, *pools, namespaces=[default])
    assert place_pods(cluster, a_queue(4)).pods[0].pool == "b"


def test_a_pool_without_nodes_is_named() -> None:
    pool = a_pool(nodes={"selector": {"match_labels": {"group": "nobody"}}})
    cause = place_pods(a_placement_cluster([], pool), a_queue(4)).pods[0].cause
    assert cause is not None
    assert cause.reason == "PoolHasNoNodes"


def test_a_pod_goes_to_the_node_with_the_most_cpu_and_memory_left() -> None:
    pool = a_pool()
    nodes = [a_member(f"n{number}", pool) for number in range(3)]
    queue = [parse_queued(_asks_host(f"p{number}", cpu="2", memory="4Gi")) for number in range(6)]
    placed = place_pods(a_placement_cluster(nodes, pool), queue)
    assert [each.node for each in placed.pods] == ["n0", "n1", "n2"] * 2


@pytest.mark.parametrize(
    "changed",
    [
        {"unschedulable": True},
        {"ready": False},
        {"taints": (Taint("example.com/broken"),)},
        {"host": HostResources(1_000, 256)},
        {"host": HostResources(32_000, 1)},
    ],
)
def test_a_node_that_kube_scheduler_rejects_gets_no_pod(changed: dict[str, Any]) -> None:
    pool = a_pool()
    nodes = [a_member("bad", pool, **changed), a_member("good", pool)]
    queue = [parse_queued(_asks_host(f"p{i}", cpu="2", memory="4Gi")) for i in range(2)]
    placed = place_pods(a_placement_cluster(nodes, pool), queue)
    assert {each.node for each in placed.pods} == {"good"}


def test_a_pod_that_lacks_only_cpu_is_told_so() -> None:
    pool = a_pool()
    cluster = a_placement_cluster([a_member("n", pool, host=HostResources(1_000, 256))], pool)
    cause = place_pods(cluster, [parse_queued(_asks_host("p", cpu="1500m"))]).pods[0].cause
    assert cause is not None
    assert cause.message == "Node n: the pod asks for 1.5 CPUs, but 1 are free"


def test_tolerations_that_the_pool_adds_count() -> None:
    toleration = {"key": "dedicated", "operator": "Exists"}
    pool = a_pool(workloads={"tolerations": [toleration]})
    cluster = a_placement_cluster([a_member("n", pool, taints=(Taint("dedicated"),))], pool)
    assert list_pending(place_pods(cluster, a_queue(4))) == []


def test_pods_that_run_take_their_room() -> None:
    pool = a_pool()
    running = a_gpu_pod("running", node="n", cards={0: 4})
    cluster = a_placement_cluster([a_member("n", pool)], pool, pods=[running])
    placed = place_pods(cluster, a_queue(11, 1))
    assert list_pending(placed) == ["p1"]
    assert placed.pools[0].capacity.memory_allocated == 15


def test_a_pending_pod_is_demand_of_its_pool() -> None:
    (pool,) = a_filled_pool(10, 8).pools
    assert (pool.placed, pool.pending) == (1, 1)
    assert (pool.capacity.memory_allocated, pool.capacity.memory_requested) == (10, 18)


def test_a_node_in_no_pool_takes_pods_that_select_its_mode() -> None:
    labels = {"ack.node.gpu.schedule": "share"}
    offers = {names.RESOURCE_GPU_MEMORY: 15}
    node = a_node("n", labels, allocatable=offers, capacity=offers, gpu_count=1)
    placed = place_pods(a_placement_cluster([node]), a_queue(4, selects=labels))
    assert [(each.pool, each.node) for each in placed.pods] == [("", "n")]


def test_where_equal_nodes_are_taken_in_any_order_the_most_likely_end_is_told() -> None:
    """Two pods of 8 leave room for one of 15 only if both are on one node."""
    pool = a_pool()
    cluster = a_placement_cluster([a_member(f"n{n}", pool, cards=2) for n in range(2)], pool)
    label = {names.LABEL_CARD_COUNT: "2"}
    queue = [*a_queue(8, 8), a_queued("pair", gib=20, labels=label)]
    likely = place_likely(cluster, queue)
    assert (likely.fewest, likely.most) == (2, 3)
    assert likely.placed in (2, 3)
    assert likely == place_likely(cluster, queue)


def test_a_large_cluster_is_tried_once() -> None:
    pool = a_pool()
    cluster = a_placement_cluster([a_member(f"n{n}", pool) for n in range(3)], pool)
    queue = a_queue(*[4] * 9000)
    likely = place_likely(cluster, queue)
    assert likely.fewest == likely.most == 9
