"""Nodes that come, go and change hands, each dealt with within two seconds."""

import json
from collections.abc import Callable

import pytest

from devcluster.nodes import build_gpu_node
from tests.kit.bench import MODE, NODES, POOL, Bench, Json
from tests.kit.cluster.expect import expect, expect_pool_ready, find_condition, list_traces
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import NODE_POOL_LABEL, build_pool

MEMBER = {NODE_POOL_LABEL: "np1"}
OURS = {MODE: "share", POOL: "training"}
LIMIT_SECONDS = 2.0
"""From the API server's answer to whoever changed the node."""


def joins(bench: Bench, node: str, labels: dict[str, str]) -> None:
    """A node that registers itself with these labels."""
    bench.call("POST", NODES, build_gpu_node(node, labels={**MEMBER, **labels}))


def expect_in_time(bench: Bench, sentence: str, probe: Callable[[], bool]) -> None:
    expect(bench, sentence, probe, within_seconds=LIMIT_SECONDS)


def is_ours(node: Json) -> bool:
    """Labelled, and recorded as such."""
    meta = node["metadata"]
    return bool(
        OURS.items() <= meta["labels"].items()
        and "gpushare.io/initial-values" in meta["annotations"]
    )


def matched(bench: Bench) -> int:
    count: int = bench.pool()["status"]["nodes"]["matched"]
    return count


@pytest.fixture
def pool_of_one(bench: Bench) -> None:
    """The pool `training`, Ready with the node `n0`."""
    given_sharing_pool(bench, "Professional", "n0", placement="binpack")


@pytest.mark.usefixtures("operator", "pool_of_one")
@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="bare"),
        pytest.param({MODE: "default"}, id="as ACK joins it"),
        pytest.param({POOL: "training", MODE: "share"}, id="from a node template"),
    ],
)
def test_a_node_that_joins_is_labelled_in_time(bench: Bench, labels: dict[str, str]) -> None:
    joins(bench, "n1", labels)

    expect_in_time(bench, "n1 is labelled and ours", lambda: is_ours(bench.node("n1")))
    expect_pool_ready(bench, nodes=2)
    assert bench.node("n1")["metadata"]["labels"].items() >= OURS.items()


@pytest.mark.usefixtures("operator", "pool_of_one")
def test_a_node_that_is_relabelled_comes_and_goes_in_time(bench: Bench) -> None:
    bench.add_nodes("n1", node_pool="np2")

    bench.label("n1", MEMBER)
    expect_in_time(bench, "n1 is a member", lambda: is_ours(bench.node("n1")))
    expect_pool_ready(bench, nodes=2)

    bench.label("n1", {NODE_POOL_LABEL: "np2"})
    expect_in_time(bench, "n1 is given up", lambda: not list_traces(bench.node("n1")))
    assert bench.node("n1")["metadata"]["labels"].items() >= OURS.items()
    expect_pool_ready(bench, nodes=1)


@pytest.mark.usefixtures("operator", "pool_of_one")
def test_a_node_that_is_replaced_under_its_name_is_taken_in_in_time(bench: Bench) -> None:
    before = bench.node("n0")["metadata"]
    bench.call("DELETE", f"{NODES}/n0")
    joins(bench, "n0", {MODE: "default"})

    expect_in_time(bench, "n0 is labelled and ours", lambda: is_ours(bench.node("n0")))
    after = bench.node("n0")["metadata"]
    assert after["uid"] != before["uid"]
    assert json.loads(after["annotations"]["gpushare.io/initial-values"])[MODE] == "default"


@pytest.mark.usefixtures("operator", "pool_of_one")
def test_a_node_that_is_deleted_is_counted_no_more_in_time(bench: Bench) -> None:
    bench.call("DELETE", f"{NODES}/n0")

    expect_in_time(bench, "no node is counted", lambda: matched(bench) == 0)
    assert bench.pool()["status"]["capacity"]["gpus"] == 0


@pytest.mark.usefixtures("operator")
def test_a_pool_without_a_node_is_ready_and_takes_the_first_that_comes(bench: Bench) -> None:
    bench.install("Professional")
    bench.create_pool(build_pool())
    pool = expect_pool_ready(bench, nodes=0)
    assert find_condition(pool)["reason"] == "NoNodes"
    assert find_condition(pool)["reason"] == "NoNodes"

    joins(bench, "n1", {MODE: "default"})

    expect_in_time(bench, "n1 is labelled and ours", lambda: is_ours(bench.node("n1")))
    assert find_condition(expect_pool_ready(bench, nodes=1))["reason"] == "AllNodesReady"
