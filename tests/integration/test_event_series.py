"""What the operator tells again is counted on the Event that is there."""

from typing import Any

import pytest

from tests.kit.arrange import POOL, given_sharing_pool
from tests.kit.bench import NODES, Bench
from tests.kit.expect import expect, expect_labels, expect_pool_ready
from tests.kit.told import read_events

Json = dict[str, Any]


def disturb(bench: Bench, times: int) -> None:
    """Somebody, each time another, writes another pool's name on the node; it is put back."""
    body = {"metadata": {"labels": {POOL: "elsewhere"}}}
    bench.call("PATCH", f"{NODES}/n1?fieldManager=somebody-{times}", body)
    expect_labels(bench, "n1", {POOL: "training"})
    expect_pool_ready(bench, nodes=1)


@pytest.mark.usefixtures("operator")
def test_a_pool_that_is_ready_again_and_again_has_one_event_of_that(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1")
    pool = bench.pool()
    (first,) = expect(bench, "it is told", lambda: read_events(bench, pool, "AllNodesReady"))
    assert "series" not in first
    mark = bench.audit.mark()

    def is_counted() -> Json | None:
        (event,) = read_events(bench, pool, "AllNodesReady")
        return event.get("series")

    for times in range(4):
        disturb(bench, times)
    series = expect(bench, "it is counted", is_counted)

    assert 2 <= series["count"] <= 5
    assert series["lastObservedTime"] > first["eventTime"]
    counts = [
        call
        for call in bench.audit.our_writes(mark)
        if (call.verb, call.resource, call.name) == ("patch", "events", first["metadata"]["name"])
    ]
    assert 1 <= len(counts) < series["count"] or series["count"] == 2
