"""What the operator tells again is counted on the Event that is there."""

import pytest

from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect, expect_pool_ready, read_events
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import NODE_POOL, NODE_POOL_LABEL


def leave_and_join(bench: Bench) -> None:
    """The pool's one node goes to another node pool and comes back, and the status tells both."""
    bench.label("n1", {NODE_POOL_LABEL: "np2"})
    expect_pool_ready(bench, nodes=0)
    bench.label("n1", {NODE_POOL_LABEL: NODE_POOL})
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
        series: Json = event.get("series", {})
        return series if series.get("count") == 3 else None

    for _ in range(2):
        leave_and_join(bench)
    series = expect(bench, "each is counted", is_counted)

    assert series["lastObservedTime"] > first["eventTime"]
    counts = [
        call
        for call in bench.audit.our_writes(mark)
        if (call.verb, call.resource, call.name) == ("patch", "events", first["metadata"]["name"])
    ]
    assert 1 <= len(counts) <= 2
