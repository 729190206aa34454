"""A thousand pods at once over two pools with room for half of them each."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from devcluster.nodes import add_nodes, build_gpu_node
from devcluster.waiting import wait_until
from tests.integration.webhook.webhook_replicas import two_webhooks
from tests.kit.bench import PODS as PODS_PATH
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect_allocated, expect_pool_ready, is_unschedulable
from tests.kit.cluster.operator_processes import PATIENT, read_metric
from tests.kit.cluster.sharing_pools import POOL
from tests.kit.values.manifests import NODE_POOL_LABEL, build_pod, build_pool

Json = dict[str, Any]

ADMISSIONS = "gpushare_admission_requests_total"
PODS = 1000
MOST_PENDING = 50
_WRITERS = 32
_NODES, _CARDS, _CARD_GIB, _POD_GIB = 10, 10, 15, 3
"""Of each pool: 100 cards that take five pods each."""
_POOLS = ("left", "right")
_SCHEDULED_SECONDS = 150


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_a_burst_over_two_pools_leaves_few_pods_pending(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.start("controller", identity="controller", env=PATIENT)
    with two_webhooks(bench) as webhooks:
        given_pools(bench)
        with ThreadPoolExecutor(_WRITERS) as writers:
            created = Counter(writers.map(lambda i: create_pod(bench, f"burst-{i}"), range(PODS)))
        answered = [read_metric(process, ADMISSIONS) for process in webhooks]
    assert created.keys() == set(_POOLS), f"sent to {created}"
    waiting = expect_judged(bench)
    assert len(waiting) <= MOST_PENDING, f"sent to {created}, {len(waiting)} Pending, {answered}"
    assert min(answered) > PODS / 10, f"one webhook answered nearly all calls: {answered}"


def given_pools(bench: Bench) -> None:
    """Two pools of equal priority, Ready and empty, and their capacity told."""
    members = [(pool, index) for pool in _POOLS for index in range(_NODES)]
    add_nodes(
        bench.cluster,
        [
            build_gpu_node(
                f"{pool}-{index}",
                cards=_CARDS,
                card_memory_gib=_CARD_GIB,
                labels={NODE_POOL_LABEL: pool, "ack.node.gpu.schedule": "cgpu"},
            )
            for pool, index in members
        ],
    )
    for pool in _POOLS:
        bench.create_pool(build_pool(pool, schedule="cgpu", node_pool=pool))
    for pool in _POOLS:
        expect_pool_ready(bench, pool, nodes=_NODES)
        expect_allocated(bench, pool, gib=0)


def create_pod(bench: Bench, name: str) -> str:
    """The pool that a new pod is sent to."""
    created: Json = bench.call("POST", PODS_PATH, build_pod(name, gib=_POD_GIB))
    pool: str = created["spec"].get("nodeSelector", {}).get(POOL, "")
    return pool


def expect_judged(bench: Bench) -> list[str]:
    """Names of the pods that found no place, once the scheduler has tried them all."""
    without: list[Json] = []

    def are_judged() -> bool:
        without[:] = bench.pods(f"{PODS_PATH}?fieldSelector=spec.nodeName%3D")
        return all(is_unschedulable(pod) for pod in without)

    wait_until(
        are_judged,
        expectation=f"the scheduler has tried {PODS} pods",
        timeout_seconds=_SCHEDULED_SECONDS,
        poll_seconds=1,
    )
    # One that its kubelet refused was bound to a node that had no room left.
    refused = bench.pods(f"{PODS_PATH}?fieldSelector=status.phase%3DFailed")
    return [pod["metadata"]["name"] for pod in (*without, *refused)]
