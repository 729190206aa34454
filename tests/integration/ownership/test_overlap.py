"""Pools that claim the same nodes: who gets them, in whatever order things happened."""

import pytest

from tests.kit.bench import POOLS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_reason,
)
from tests.kit.values.manifests import NODE_POOL_LABEL, build_pool

PLACEMENT = "ack.node.gpu.placement"
POOL = "gpushare.io/pool"
ALL = {"selector": {"matchLabels": {NODE_POOL_LABEL: "np1"}}}


@pytest.fixture(autouse=True)
def professional(bench: Bench) -> None:
    bench.install("Professional")


def owners(bench: Bench) -> dict[str, str]:
    """Name of the pool that each node has on its label."""
    nodes = bench.call("GET", "/api/v1/nodes")["items"]
    return {n["metadata"]["name"]: n["metadata"]["labels"].get(POOL, "") for n in nodes}


def told(bench: Bench, pool: str) -> dict[str, tuple[str, str]]:
    """What the pool's status says of nodes that it has not: reason and message."""
    samples = bench.pool(pool)["status"]["samples"]
    return {sample["node"]: (sample["reason"], sample["message"]) for sample in samples}


def counts(bench: Bench, pool: str = "training") -> dict[str, int]:
    """How many of the pool's nodes are in each state, where any is."""
    nodes = bench.pool(pool).get("status", {}).get("nodes", {})
    return {state: count for state, count in nodes.items() if count and state != "matched"}


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("first", ["urgent", "training"])
def test_two_pools_end_in_the_same_state_in_whatever_order_they_came(
    bench: Bench, first: str
) -> None:
    pools = {
        "training": build_pool("training", placement="binpack"),
        "urgent": build_pool("urgent", nodes={"names": ["n2"]}, placement="spread", priority=200),
    }
    bench.add_nodes("n1", "n2")
    bench.create_pool(pools[first])
    expect_pool_ready(bench, first, nodes=2 if first == "training" else 1)
    bench.create_pool(pools["urgent" if first == "training" else "training"])

    expect_pool_ready(bench, "urgent", nodes=1)
    expect(bench, "all is settled", lambda: counts(bench) == {"ready": 1, "blocked": 1})
    assert owners(bench) == {"n1": "training", "n2": "urgent"}
    expect_labels(bench, "n1", {PLACEMENT: "binpack"})
    expect_labels(bench, "n2", {PLACEMENT: "spread"})
    ((reason, message),) = told(bench, "training").values()
    assert reason == "OwnedByOtherPool"
    assert "belongs to pool urgent: its priority is higher (200 > 100)" in message


@pytest.mark.usefixtures("operator")
def test_a_change_of_priority_moves_nodes_there_and_back(bench: Bench) -> None:
    bench.add_nodes("n1", "n2")
    bench.create_pool(build_pool("training"))
    expect_pool_ready(bench, nodes=2)
    bench.create_pool(build_pool("another", nodes={"names": ["n1"]}))
    expect_reason(bench, "n1", "OwnedByOtherPool", pool="another")

    bench.change_pool("another", priority=101)
    expect_pool_ready(bench, "another", nodes=1)
    assert owners(bench) == {"n1": "another", "n2": "training"}
    expect_reason(bench, "n1", "OwnedByOtherPool", pool="training")

    bench.change_pool("another", priority=99)
    expect_pool_ready(bench, "training", nodes=2)
    assert owners(bench) == {"n1": "training", "n2": "training"}
    sample = expect_reason(bench, "n1", "OwnedByOtherPool", pool="another")
    assert "belongs to pool training" in sample["message"]


@pytest.mark.usefixtures("operator")
def test_of_three_pools_the_next_takes_over_when_the_winner_is_deleted(bench: Bench) -> None:
    bench.add_nodes("n1")
    for name, priority in (("low", 1), ("high", 300), ("middle", 200)):
        bench.create_pool(build_pool(name, nodes=ALL, priority=priority))
    expect_pool_ready(bench, "high", nodes=1)
    for loser in ("low", "middle"):
        sample = expect_reason(bench, "n1", "OwnedByOtherPool", pool=loser)
        assert "belongs to pool high" in sample["message"]

    for gone, heir in (("high", "middle"), ("middle", "low")):
        bench.delete_pool(gone)
        expect_gone(bench, f"{POOLS}/{gone}")
        expect_pool_ready(bench, heir, nodes=1)
        assert owners(bench) == {"n1": heir}

    assert told(bench, "low") == {}
