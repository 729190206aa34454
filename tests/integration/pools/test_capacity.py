"""What a pool has to give, in its status, and GPU pods that found no place, on the pods."""

from datetime import datetime

import pytest

from devcluster.installation import OperatorProcess
from tests.kit.bench import POOL, Bench, Json
from tests.kit.cluster.expect import (
    expect,
    expect_capacity,
    expect_pool_ready,
    expect_running,
    read_events,
)
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pod, build_pool

UNSCHEDULABLE = "gpushare_unschedulable_pods"


def run_pod(bench: Bench, name: str, gib: int, node: str) -> Json:
    """A pod of so many GiB that runs on `node`."""
    selects = {POOL: "training", "kubernetes.io/hostname": node}
    bench.create_pod(build_pod(name, gib=gib, selects=selects))
    return expect_running(bench, name)


# Pods without a place.


def expect_told(bench: Bench, pod: str, reason: str) -> Json:
    """The one Event of this reason on the pod, within 30 s of the pod's creation."""
    found = bench.pod(pod)
    (event,) = expect(bench, f"{pod} has an Event", lambda: read_events(bench, found, reason))
    created = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
    told_at = datetime.fromisoformat(event["eventTime"])
    assert (told_at - created).total_seconds() <= 30
    return event


def test_pods_without_a_place_are_told_why_once_and_counted(bench: Bench) -> None:
    # Without the webhook nobody sends the first one to a pool.
    controller = bench.operators.start("controller")
    given_sharing_pool(bench, "Professional", "n1")
    run_pod(bench, "holds", 10, "n1")
    asks = {
        "unrouted": build_pod("unrouted", gib=2),
        "lost": build_pod("lost", selects={POOL: "nowhere"}),
        "large": build_pod("large", gib=8, selects={POOL: "training"}),
        "huge": build_pod("huge", gib=40, selects={POOL: "training"}),
    }
    reasons = {
        "unrouted": "Unrouted",
        "lost": "PoolNotFound",
        "large": "NoFreeBlock",
        "huge": "LargerThanAnyCard",
    }
    for pod in asks.values():
        bench.create_pod(pod)

    notes = {pod: expect_told(bench, pod, reason)["note"] for pod, reason in reasons.items()}

    assert "selects no pool" in notes["unrouted"]
    assert "pool nowhere, which does not exist" in notes["lost"]
    assert "requests 8 GiB on one card" in notes["large"]
    assert "the largest card of pool training has 15" in notes["huge"]
    expect_counted(bench, controller, reasons)

    # A process that starts anew sees the same pods, and tells nobody twice.
    controller.kill()
    again = bench.operators.start("controller", identity=controller.identity)
    expect_counted(bench, again, reasons)
    for name, reason in reasons.items():
        assert len(read_events(bench, bench.pod(name), reason)) == 1

    for name in reasons:
        bench.delete_pod(name)
    expect(bench, "none is counted any more", lambda: read_metric(again, UNSCHEDULABLE) == 0)


def expect_counted(bench: Bench, process: OperatorProcess, reasons: dict[str, str]) -> None:
    expect(
        bench,
        "each reason is counted once",
        lambda: all(
            read_metric(process, UNSCHEDULABLE, reason=each) == 1 for each in reasons.values()
        ),
    )


@pytest.mark.usefixtures("operator")
def test_a_card_that_a_config_map_calls_unhealthy_is_not_free(bench: Bench) -> None:
    bench.install("OpenSource")
    bench.add_nodes("n1", cards=2)
    bench.create_pool(build_pool(edition="OpenSource"))
    expect_pool_ready(bench, nodes=1)
    run_pod(bench, "small", 4, "n1")
    expect_capacity(bench, memoryAllocated=4, largestFreeBlock=15)
    report = "configmap/unhealthy-gpu-n1"
    bench.cluster.kubectl(
        *("-n", "kube-system", "create", *report.split("/"), "--from-literal=gpus=1")
    )
    try:
        expect_capacity(bench, memoryTotal=30, memoryAllocated=4, largestFreeBlock=11)
        assert "4/30" in bench.cluster.kubectl("get", "gsp").split()
    finally:
        bench.cluster.kubectl("-n", "kube-system", "delete", report)
    expect_capacity(bench, memoryAllocated=4, largestFreeBlock=15)
