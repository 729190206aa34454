"""A pool that only says what it would do, and one that holds still."""

import re
from typing import Any

import pytest

from tests.kit.bench import NODES, POOLS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_reason,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pool

Json = dict[str, Any]

MODE = "ack.node.gpu.schedule"
PLACEMENT = "ack.node.gpu.placement"
POOL = "gpushare.io/pool"
VERIFIED = "gpushare.io/isolation-verified"
CGPU = {MODE: "cgpu", VERIFIED: "true"}
CARRIED = {POOL, PLACEMENT, *CGPU}


def announced(message: str) -> dict[str, str]:
    """The labels that an observing pool's message says it would write."""
    (listed,) = re.findall(r"labels to be written: ([^;]+)", message)
    return {} if listed == "none" else dict(each.split("=") for each in listed.split(", "))


def written_since(bench: Bench, mark: int) -> set[str]:
    return {call.resource for call in bench.audit.our_writes(mark)}


def ours_among(node: Json) -> dict[str, str]:
    return {k: v for k, v in node["metadata"]["labels"].items() if k in CARRIED}


@pytest.mark.usefixtures("operator")
def test_observe_writes_its_own_status_alone_and_enforce_does_just_what_it_said(
    bench: Bench,
) -> None:
    bench.install("Professional")
    bench.add_nodes("bare")
    bench.add_nodes("joined", labels={MODE: "default", PLACEMENT: "binpack"})
    bench.add_nodes("settled", labels={MODE: "cgpu"})
    mark = bench.audit.mark()
    bench.create_pool(build_pool(schedule="cgpu", placement="binpack", reconcile="Observe"))
    said = {
        node: announced(expect_reason(bench, node, "WouldChange")["message"])
        for node in ("bare", "joined", "settled")
    }
    before = {node: ours_among(bench.node(node)) for node in said}

    assert said == {
        "bare": {**CGPU, PLACEMENT: "binpack", POOL: "training"},
        "joined": {**CGPU, POOL: "training"},
        "settled": {VERIFIED: "true", PLACEMENT: "binpack", POOL: "training"},
    }
    expect(bench, "an Event tells", lambda: "events" in written_since(bench, mark))
    assert written_since(bench, mark) == {"gpusharepools/status", "events"}
    assert "finalizers" not in bench.pool()["metadata"]
    assert bench.pool()["status"]["nodes"]["waiting"] == 3

    bench.change_pool(reconcile="Enforce")

    expect_pool_ready(bench, nodes=3)
    for node, labels in said.items():
        assert ours_among(bench.node(node)) == before[node] | labels


@pytest.mark.usefixtures("operator")
def test_an_observing_pool_takes_no_node_whatever_its_priority(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    mark = bench.audit.mark()

    bench.create_pool(build_pool("urgent", schedule="cgpu", priority=900, reconcile="Observe"))

    message = expect_reason(bench, "n1", "WouldChange", pool="urgent")["message"]
    assert announced(message) == {**CGPU, POOL: "urgent"}
    assert not [call for call in bench.audit.our_writes(mark) if call.resource == "nodes"]
    expect_labels(bench, "n1", {MODE: "share", POOL: "training"})
    expect_pool_ready(bench, nodes=1)


@pytest.mark.usefixtures("operator")
def test_an_observing_pool_goes_at_once(bench: Bench) -> None:
    bench.install("Professional")
    bench.add_nodes("n1")
    bench.create_pool(build_pool(reconcile="Observe"))
    expect_reason(bench, "n1", "WouldChange")

    bench.delete_pool()

    assert not bench.cluster.api.exists(f"{POOLS}/training")


@pytest.mark.usefixtures("operator")
def test_a_pool_that_observes_after_it_enforced_holds_what_it_has(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", placement="binpack")
    mark = bench.audit.mark()
    bench.change_pool(reconcile="Observe", schedule="cgpu", placement=None)

    message = expect_reason(bench, "n1", "WouldChange")["message"]

    assert announced(message) == CGPU
    assert message.endswith(f"; to be removed: {PLACEMENT}")
    assert not [call for call in bench.audit.our_writes(mark) if call.resource == "nodes"]
    before = ours_among(bench.node("n1"))
    bench.change_pool(reconcile="Enforce")
    expect_pool_ready(bench, nodes=1)
    del before[PLACEMENT]
    assert ours_among(bench.node("n1")) == before | CGPU


@pytest.mark.usefixtures("operator")
def test_an_observing_pool_that_is_deleted_gives_up_what_it_had_and_keeps_the_labels(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Professional", "n1", deletionPolicy="WholeCard")
    bench.change_pool(reconcile="Observe")
    expect(bench, "it observes", lambda: observed_generation_is_current(bench))

    bench.delete_pool()

    expect_gone(bench, f"{POOLS}/training")
    # A pool that does not act changes no node that leaves it either.
    expect_labels(bench, "n1", {MODE: "share", POOL: "training"})
    assert "gpushare.io/found" not in bench.node("n1")["metadata"]["annotations"]


def observed_generation_is_current(bench: Bench) -> bool:
    pool = bench.pool()
    return bool(pool["status"]["observedGeneration"] == pool["metadata"]["generation"])


# Paused.


@pytest.mark.usefixtures("operator")
def test_paused_drift_stays_and_no_change_begins_until_enforce(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2", placement="binpack")
    bench.change_pool(reconcile="Paused", schedule="cgpu")
    expect_reason(bench, "n2", "Paused")
    mark = bench.audit.mark()

    bench.label("n1", {PLACEMENT: "spread"})

    expect(
        bench,
        "the pool says what waits on n1",
        lambda: f"{PLACEMENT}=binpack" in expect_reason(bench, "n1", "Paused")["message"],
    )
    message = expect_reason(bench, "n2", "Paused")["message"]
    assert announced(message) == CGPU
    assert not [call for call in bench.audit.our_writes(mark) if call.resource == "nodes"]
    expect_labels(bench, "n1", {PLACEMENT: "spread", MODE: "share"})

    bench.change_pool(reconcile="Enforce")

    expect_pool_ready(bench, nodes=2)
    for node in ("n1", "n2"):
        expect_labels(bench, node, {MODE: "cgpu", PLACEMENT: "binpack"})


@pytest.mark.usefixtures("operator")
def test_a_node_in_its_change_is_finished_while_the_pool_is_paused(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2")
    bench.set_faults("n1", start_delay_seconds=6)
    bench.change_pool(schedule="cgpu")
    expect(bench, "n1 is labelled", lambda: read_mode(bench, "n1") == "cgpu")

    bench.change_pool(reconcile="Paused")

    expect(bench, "n1 takes pods again", lambda: not bench.node("n1")["spec"].get("unschedulable"))
    expect_reason(bench, "n2", "Paused")
    assert (read_mode(bench, "n1"), read_mode(bench, "n2")) == ("cgpu", "share")
    assert "gpushare.io/change" not in bench.node("n1")["metadata"]["annotations"]
    bench.change_pool(reconcile="Enforce")
    expect_pool_ready(bench, nodes=2)


def read_mode(bench: Bench, node: str) -> str:
    labels: dict[str, str] = bench.call("GET", f"{NODES}/{node}")["metadata"]["labels"]
    return labels[MODE]


@pytest.mark.usefixtures("operator")
def test_a_paused_pool_that_is_deleted_lets_go_of_its_nodes(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", deletionPolicy="WholeCard")
    bench.change_pool(reconcile="Paused")
    bench.delete_pool()

    expect_gone(bench, f"{POOLS}/training")
    # A pool that does not act changes no node that leaves it either.
    expect_labels(bench, "n1", {MODE: "share", POOL: "training"})
    assert "gpushare.io/found" not in bench.node("n1")["metadata"]["annotations"]
