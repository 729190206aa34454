"""A node leaves its pool: what stays on it, what goes, and that nothing holds a pool for ever."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.nodechange.node_modes import EXPECTED_MODES, expect_offer
from tests.kit.bench import MODE, NODES, PLACEMENT, POOL, POOLS, Bench, Json
from tests.kit.cluster.denying_policy import SENTENCE, node_writes_denied
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_reason,
    expect_running,
    list_traces,
    read_events,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod
from tests.kit.values.manifests import build_pool

TRAINING = f"{POOLS}/training"
OURS = {MODE, PLACEMENT, POOL, "cgpu", "cgpu.disable.isolation", "gpushare"}
"""Labels that the operator writes, in whatever edition."""
IMPATIENT = {"GPUSHARE_RELEASE_PATIENCE_SECONDS": "12", "GPUSHARE_RESYNC_SECONDS": "1"}
"""An operator that gives up waiting for a node after seconds."""


def expect_given_up(bench: Bench, node: str, labels: Mapping[str, str]) -> None:
    """Nothing on the node is ours, of our labels it has just these, and it takes pods."""

    def probe() -> Json | None:
        found = bench.node(node)
        return None if list_traces(found) else found

    found = expect(bench, f"{node} is given up", probe)
    kept = {k: v for k, v in found["metadata"]["labels"].items() if k in OURS}
    assert kept == labels
    assert not found["spec"].get("unschedulable")


# WholeCard.


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("edition", ["Professional", "Basic", "OpenSource"])
def test_whole_card_takes_nodes_back_one_at_a_time_and_lets_go_once_cards_are_offered(
    bench: Bench, edition: Any
) -> None:
    whole = EXPECTED_MODES[edition]["default"]
    nodes = ("n1", "n2", "n3") if edition == "Professional" else ("n1", "n2")
    given_sharing_pool(bench, edition, *nodes, deletionPolicy="WholeCard")
    with bench.watching() as watch:
        bench.cluster.kubectl("delete", "gsp", "training", "--timeout=60s")

    for node in nodes:
        expect_given_up(bench, node, whole.labels)
        expect_offer(bench, node, whole)
        states = [each for each in watch.history if each["metadata"]["name"] == node]
        left = next(each for each in states if POOL not in each["metadata"]["labels"])
        assert left["status"]["allocatable"]["aliyun.com/gpu-mem"] == "0"
        if edition != "OpenSource":
            # It alone has no plugin for whole cards that could be waited for.
            assert left["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    out = watch.most_at_once(lambda node: bool(node["spec"].get("unschedulable")))
    assert len(out) == 1


# Restore.


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("edition", "found"),
    [
        ("Professional", {MODE: "default", PLACEMENT: "binpack"}),
        ("Professional", {}),
        ("Basic", {}),
        ("OpenSource", {"gpushare": "false"}),
    ],
)
def test_restore_brings_back_what_was_found_and_no_more(
    bench: Bench, edition: Any, found: dict[str, str]
) -> None:
    bench.install(edition)
    bench.add_nodes("n1", labels=found)
    spec: Json = {"placement": "spread"} if edition == "Professional" else {}
    bench.create_pool(build_pool(edition=edition, deletionPolicy="Restore", **spec))
    expect_pool_ready(bench, nodes=1)

    bench.cluster.kubectl("delete", "gsp", "training", "--timeout=60s")

    expect_given_up(bench, "n1", found)
    if found:
        expect_offer(bench, "n1", EXPECTED_MODES[edition]["default"])


# What must not hold a pool.


@pytest.mark.usefixtures("operator")
def test_a_node_that_is_gone_holds_no_pool(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2", deletionPolicy="WholeCard")
    expect_running(bench, place_pod(bench, "train-1", "n1"))
    bench.delete_pool()
    assert "default/train-1" in expect_reason(bench, "n1", "WorkloadsPresent")["message"]

    bench.call("DELETE", f"{NODES}/n1")

    expect_gone(bench, TRAINING)


def test_a_node_that_refuses_our_writes_is_left_behind_and_given_up_later(bench: Bench) -> None:
    bench.operators.start(env=IMPATIENT)
    given_sharing_pool(bench, "Professional", "n1", "n2")
    pool, kept = bench.pool(), {MODE: "share", POOL: "training"}
    with node_writes_denied(bench, "n2"):
        bench.delete_pool()
        sample = expect_reason(bench, "n2", "WriteRefused")
        assert SENTENCE in sample["message"]
        expect_gone(bench, TRAINING)
        expect_given_up(bench, "n1", kept)
        (event,) = expect(
            bench, "an Event lists them", lambda: read_events(bench, pool, "NodesLeftBehind")
        )
        assert event["note"].endswith(": n2")
        expect_labels(bench, "n2", kept)
        assert list_traces(bench.node("n2"))

    expect_given_up(bench, "n2", kept)
