"""Nodes that an autoscaler takes away: a finalizer keeps them while their machine ends."""

from collections.abc import Callable

import pytest

from tests.kit.bench import NODES, Bench
from tests.kit.cluster.expect import expect, expect_gone, expect_pool_ready, expect_reason
from tests.kit.cluster.sharing_pools import given_sharing_pool, plugin_uids

FINALIZER = "karpenter.sh/termination"
TAINT = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1790000000", "effect": "NoSchedule"}
QUICK_TO_FAIL = 8


def delete(bench: Bench) -> None:
    bench.call("DELETE", f"{NODES}/n1")


def taint(bench: Bench) -> None:
    bench.call("PATCH", f"{NODES}/n1", {"spec": {"taints": [TAINT]}})


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("remove", [delete, taint])
def test_a_node_that_is_being_removed_is_left_alone_and_holds_nobody_up(
    bench: Bench, remove: Callable[[Bench], None]
) -> None:
    rollout = {"readyTimeoutSeconds": QUICK_TO_FAIL}
    plugins = given_sharing_pool(bench, "Basic", "n1", "n2", rollout=rollout)
    bench.call("PATCH", f"{NODES}/n1", {"metadata": {"finalizers": [FINALIZER]}})
    remove(bench)
    # Its plugin would not come back: its machine is going.
    bench.set_faults("n1", plugin_never_ready=True)
    bench.change_pool(schedule="cgpu")
    expect_reason(bench, "n1", "UnderMaintenance")
    expect(bench, "n2 is done", lambda: bench.pool()["status"]["nodes"]["ready"] == 1)
    assert plugin_uids(bench)["n1"] == plugins["n1"]
    assert not bench.node("n1")["spec"].get("unschedulable")

    bench.call("PATCH", f"{NODES}/n1", {"metadata": {"finalizers": None}})
    if remove is taint:
        delete(bench)
    expect_gone(bench, f"{NODES}/n1")
    expect_pool_ready(bench, nodes=1)
