"""What one team's pods and nodes that are out of order change for the pods of others."""

import json

import pytest

from devcluster.errors import CommandError
from devcluster.names import GPU_MEM
from tests.kit.bench import NODES, PODS, POOL, Bench, Json
from tests.kit.cluster.expect import (
    expect,
    expect_bound,
    expect_capacity,
    expect_pool_ready,
    expect_running,
    is_unschedulable,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pod, build_pool

TAINT = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1764300000", "effect": "NoSchedule"}
TEAM = {"key": "team", "value": "vision", "effect": "NoSchedule"}


@pytest.fixture
def preferred(bench: Bench) -> None:
    """Pool `training`, which admission prefers, has n1; pool `spare` has n2; both are free."""
    given_sharing_pool(bench, "Professional", "n1", priority=900)
    bench.add_nodes("n2", node_pool="np2")
    bench.create_pool(build_pool("spare", node_pool="np2"))
    expect_pool_ready(bench, "spare", nodes=1)
    for pool in ("training", "spare"):
        expect_capacity(bench, pool, largestFreeBlock=15)


def build_typing_error(amount: str = "10G") -> Json:
    """A pod that selects `training`, of a user who took the unit for bytes."""
    pod = build_pod("typing-error", selects={POOL: "training"})
    for part in pod["spec"]["containers"][0]["resources"].values():
        part[GPU_MEM] = amount
    return pod


def pool_of_another(bench: Bench) -> str:
    """The pool that admission would choose for somebody else's pod."""
    pod = bench.call("POST", f"{PODS}?dryRun=All", build_pod("other", gib=8))
    chosen: str = pod["spec"]["nodeSelector"][POOL]
    return chosen


def expect_chosen(bench: Bench, pool: str) -> None:
    """The webhook reads the pool's status a moment after it is written."""
    expect(bench, f"a new pod gets pool {pool}", lambda: pool_of_another(bench) == pool)


def taint(bench: Bench, node: str, *taints: Json) -> None:
    bench.call("PATCH", f"{NODES}/{node}", {"spec": {"taints": list(taints) or None}})


@pytest.mark.usefixtures("preferred", "operator")
def test_a_typing_error_takes_no_room_from_the_pods_of_others(bench: Bench) -> None:
    bench.create_pod(build_typing_error())
    # Before the scheduler has looked at it, and after.
    assert pool_of_another(bench) == "training"
    expect(bench, "it waits", lambda: is_unschedulable(bench.pod("typing-error")))
    bench.create_pod(build_pod("later", gib=4))
    expect_bound(bench, "later")
    expect_capacity(bench, memoryAllocated=4, memoryRequested=4, strandedMemory=0)
    expect_chosen(bench, "training")


@pytest.mark.usefixtures("preferred", "operator")
@pytest.mark.parametrize("amount", ["10G", "3Gi", "5k", "10000000000"])
def test_who_makes_it_is_told_the_unit(bench: Bench, amount: str) -> None:
    with pytest.raises(CommandError) as refused:
        bench.cluster.kubectl(
            *("create", "-f", "-", "--dry-run=server", "--warnings-as-errors"),
            stdin=json.dumps(build_typing_error(amount)),
        )
    assert "the largest card has 15 GiB. The unit is GiB" in str(refused.value)


@pytest.mark.usefixtures("preferred", "operator")
def test_a_backlog_behind_gates_takes_no_room_until_they_are_lifted(bench: Bench) -> None:
    backlog = [f"gated-{number}" for number in range(8)]
    for name in backlog:
        bench.create_pod(build_pod(name, gib=4, schedulingGates=[{"name": "team/quota"}]))
        assert bench.pod(name)["spec"]["nodeSelector"] == {POOL: "training"}
    assert pool_of_another(bench) == "training"
    # The status was written after them.
    run_pod(bench, "first", "training")
    expect_capacity(bench, memoryAllocated=4, memoryRequested=4)
    assert pool_of_another(bench) == "training"

    for name in backlog:
        bench.call("PATCH", f"{PODS}/{name}", {"spec": {"schedulingGates": []}})
    expect_capacity(bench, memoryRequested=36)
    expect_chosen(bench, "spare")


def run_pod(bench: Bench, name: str, pool: str) -> None:
    """A pod of 4 GiB that runs in this pool."""
    bench.create_pod(build_pod(name, gib=4, selects={POOL: pool}))
    expect_running(bench, name)


@pytest.mark.usefixtures("preferred", "operator")
def test_a_pod_that_waits_for_something_else_takes_no_room(bench: Bench) -> None:
    elsewhere = {POOL: "training", "kubernetes.io/hostname": "nowhere"}
    for number in range(4):
        bench.create_pod(build_pod(f"lost-{number}", gib=15, selects=elsewhere))
    lost = [f"lost-{number}" for number in range(4)]
    expect(bench, "all wait", lambda: all(is_unschedulable(bench.pod(each)) for each in lost))
    run_pod(bench, "first", "training")
    expect_capacity(bench, memoryAllocated=4, memoryRequested=4)
    expect_chosen(bench, "training")


@pytest.mark.usefixtures("preferred", "operator")
def test_a_node_that_an_autoscaler_taints_has_no_room_until_it_does_not(bench: Bench) -> None:
    bench.add_nodes("n3")
    expect_capacity(bench, memoryTotal=30)
    taint(bench, "n1", TAINT)
    taint(bench, "n3", TAINT | {"value": "1764300060"})
    expect_capacity(bench, memoryTotal=30, largestFreeBlock=0)
    expect_chosen(bench, "spare")
    assert bench.node("n1")["spec"].get("unschedulable") is None
    taint(bench, "n1")
    expect_capacity(bench, largestFreeBlock=15)
    expect_chosen(bench, "training")


@pytest.mark.usefixtures("preferred", "operator")
def test_a_taint_of_all_nodes_or_that_the_pool_tolerates_takes_no_room_away(bench: Bench) -> None:
    bench.add_nodes("n3")
    expect_capacity(bench, memoryTotal=30)
    taint(bench, "n1", TEAM)
    taint(bench, "n3", TAINT)
    expect_capacity(bench, largestFreeBlock=0)
    taint(bench, "n3", TEAM)
    expect_capacity(bench, largestFreeBlock=15)
    taint(bench, "n3", TAINT)
    expect_capacity(bench, largestFreeBlock=0)
    bench.change_pool(workloads={"tolerations": [TEAM]})
    expect_capacity(bench, largestFreeBlock=15)
