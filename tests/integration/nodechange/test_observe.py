"""A pool that only says what it would do."""

import re

import pytest

from tests.kit.bench import MODE, PLACEMENT, POOL, VERIFIED, Bench, Json
from tests.kit.cluster.expect import expect, expect_pool_ready, expect_reason
from tests.kit.values.manifests import build_pool

CGPU = {MODE: "cgpu", VERIFIED: "true"}
CARRIED = {POOL, PLACEMENT, *CGPU}


def announced(message: str) -> dict[str, str]:
    """The labels that an observing pool's message says it would write."""
    (listed,) = re.findall(r"Labels to write: ([^;]+)", message)
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
