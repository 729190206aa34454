"""A kernel module outlives the pool that brought it: who takes the node next must know of it."""

import pytest

from devcluster import names
from tests.kit.bench import POOLS, Bench
from tests.kit.cluster.expect import expect, expect_gone, expect_pool_ready, find_condition
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

    def awaits_teardown() -> bool:
        reason: str = find_condition(bench.pool())["reason"]
        assert reason != "AllNodesReady", "the node is called shared, and its module is loaded"
        return reason == "RequiresTeardown"

    expect(bench, "the node waits for its teardown", awaits_teardown)
