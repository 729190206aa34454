"""What a pool's status says stays honest, small, and is said once."""

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.kit.bench import POOLS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_pool_ready,
    expect_reason,
    find_condition,
    read_events,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pool

Json = dict[str, Any]

KINDS = ("Ready", "NodesLabelled", "Conflicting")
LONGEST_NAME = 63 - len("-00")


@pytest.mark.usefixtures("operator")
def test_the_time_of_a_condition_moves_with_its_status_alone(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    with bench.watching(POOLS) as watch:
        bench.change_pool(schedule="cgpu")
        expect_pool_ready(bench, nodes=1)
        bench.add_nodes("stuck", labels={"cgpu": "true"})
        expect_reason(bench, "stuck", "OtherEditionLabels")
        bench.label("stuck", {"cgpu": None})
        expect_pool_ready(bench, nodes=2)

    for kind in KINDS:
        seen = [find_condition(pool, kind) for pool in watch.history]
        for before, after in pairwise(seen):
            moved = before["lastTransitionTime"] != after["lastTransitionTime"]
            # The other way round it need not be: times are in whole seconds.
            assert not moved or before["status"] != after["status"], (kind, before, after)
    assert {find_condition(pool)["status"] for pool in watch.history} == {"True", "False"}
    last = watch.history[-1]
    observed = {find_condition(last, kind)["observedGeneration"] for kind in KINDS}
    assert observed == {last["metadata"]["generation"]}


@pytest.mark.usefixtures("operator")
def test_the_status_of_sixty_blocked_nodes_is_small_and_shows_twenty(bench: Bench) -> None:
    bench.install("Professional")
    nodes = [f"{'n' * LONGEST_NAME}-{index:02d}" for index in range(60)]
    bench.add_nodes(*nodes, labels={"cgpu": "true", "gpushare": "true"})
    bench.create_pool(build_pool())

    status = expect(
        bench,
        "all 60 are blocked",
        lambda: (s := bench.pool().get("status", {})).get("nodes", {}).get("blocked") == 60 and s,
    )

    assert len(json.dumps(status).encode()) < 16 * 1024
    assert [sample["node"] for sample in status["samples"]] == nodes[:20]
    assert {sample["reason"] for sample in status["samples"]} == {"OtherEditionLabels"}
    assert all("cgpu=true, gpushare=true" in sample["message"] for sample in status["samples"])
    ready = find_condition({"status": status})
    assert (ready["status"], ready["reason"]) == ("False", "OtherEditionLabels")
    assert "0 of 60 nodes are ready" in ready["message"]


def test_a_restart_repeats_no_event_and_moves_no_time(bench: Bench) -> None:
    first = bench.operators.start()
    given_sharing_pool(bench, "Professional", "n1")
    bench.add_nodes("stuck", labels={"cgpu": "true"})
    expect_reason(bench, "stuck", "OtherEditionLabels")
    pool = bench.pool()
    (told,) = expect(
        bench, "it is told", lambda: read_events(bench, pool, "OtherEditionLabels") or None
    )
    events, status = read_events(bench, pool), bench.pool()["status"]
    first.kill()

    bench.operators.start(identity=first.identity)
    bench.add_nodes("n2")
    expect(bench, "n2 is ready", lambda: bench.pool()["status"]["nodes"]["ready"] == 2)

    assert told["type"] == "Warning"
    assert read_events(bench, pool, "OtherEditionLabels") == [told]
    # What happens to n2 is told anew: that it is changed, and that nothing is left after that.
    told_before = reasons_of(events) - {"Updating", "NothingLeft"}
    again = [e for e in read_events(bench, pool) if e["reason"] in told_before]
    assert [e for e in again if "n2" not in e["note"]] == [
        e for e in events if e["reason"] in told_before
    ]
    after = bench.pool()["status"]
    assert after["samples"] == status["samples"]
    assert (
        find_condition({"status": after})["lastTransitionTime"]
        == (find_condition({"status": status})["lastTransitionTime"])
    )


def reasons_of(events: list[Json]) -> set[str]:
    return {event["reason"] for event in events}
