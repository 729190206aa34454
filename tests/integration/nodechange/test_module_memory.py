"""A kernel module outlives the pool that brought it: who takes the node next must know of it."""

from collections.abc import Callable

import pytest

from devcluster import names
from tests.kit.bench import NODES, POOLS, Bench
from tests.kit.cluster.expect import expect, expect_gone, expect_pool_ready, find_condition
from tests.kit.cluster.node_teardown import expect_shared_for_good, reboot, remove_module
from tests.kit.values.manifests import build_pool


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("policy", ["WholeCard", "Retain"])
def test_a_node_is_not_called_shared_on_which_the_pool_before_left_the_module(
    bench: Bench, policy: str
) -> None:
    bench.install("Professional")
    bench.add_nodes("n1")
    bench.create_pool(build_pool(schedule="cgpu", deletionPolicy=policy))
    expect_pool_ready(bench, nodes=1)
    if policy == "Retain":
        bench.change_pool(schedule="default")
        expect_pool_ready(bench, nodes=1)
    bench.delete_pool()
    expect_gone(bench, f"{POOLS}/training")
    assert names.MODULE in bench.node("n1")["metadata"]["annotations"]

    bench.create_pool(build_pool(schedule="share"))

    expect(bench, "the node waits for its teardown", awaits_teardown(bench))


@pytest.mark.usefixtures("operator")
def test_a_node_whose_system_disk_was_replaced_needs_no_teardown(bench: Bench) -> None:
    def start_from(disk: str) -> None:
        info = {"machineID": f"machine-{disk}", "kernelVersion": f"5.10.134-{disk}"}
        bench.call("PATCH", f"{NODES}/n1/status", {"status": {"nodeInfo": info}})

    bench.install("Professional")
    bench.add_nodes("n1")
    start_from("16")
    bench.create_pool(build_pool(schedule="cgpu"))
    expect_pool_ready(bench, nodes=1)
    bench.change_pool(schedule="default")
    expect_pool_ready(bench, nodes=1)
    assert "5.10.134-16" in bench.node("n1")["metadata"]["annotations"]["gpushare.io/module"]

    remove_module(bench, "n1")
    reboot(bench, "n1")
    start_from("17")
    bench.change_pool(schedule="share")

    expect_shared_for_good(bench, "n1")


def awaits_teardown(bench: Bench) -> Callable[[], bool]:
    """Whether the pool's node does; it is never called shared."""

    def find_reason() -> bool:
        reason: str = find_condition(bench.pool())["reason"]
        assert reason != "AllNodesReady", "the node is called shared, and its module is loaded"
        return reason == "RequiresTeardown"

    return find_reason
