"""The Professional edition: every change that is allowed works, every other one changes nothing."""

from itertools import pairwise, permutations

import pytest

from gpushare.names import Reason
from tests.integration.nodechange.node_modes import (
    EXPECTED_MODES,
    expect_mode,
    expect_offer,
    given_nodes_in,
    our_node_writes,
    take_tour,
)
from tests.kit.bench import MODE, Bench
from tests.kit.cluster.expect import expect, expect_labels, expect_reason, list_traces
from tests.kit.values.manifests import build_pool

WITHOUT_MODULE = (
    "default", "topology", "default", "mps", "default", "share", "default", "disabled",
)  # fmt: skip
WITH_MODULE = (
    "default", "share", "cgpu", "default", "cgpu", "topology",
    "default", "core_mem", "topology", "default", "core_mem", "default",
)  # fmt: skip
TOURS = (WITHOUT_MODULE, WITH_MODULE)
ALLOWED = {pair for tour in TOURS for pair in pairwise(tour)}
REFUSED = [pair for pair in permutations(EXPECTED_MODES["Professional"], 2) if pair not in ALLOWED]

pytestmark = pytest.mark.usefixtures("operator")


@pytest.mark.parametrize("tour", TOURS, ids=["without-the-module", "with-the-module"])
def test_a_node_goes_through_the_modes_and_each_of_them_works(
    bench: Bench, tour: tuple[str, ...]
) -> None:
    take_tour(bench, "Professional", *tour)


def test_a_pair_that_is_not_allowed_is_reported_and_nothing_is_written(bench: Bench) -> None:
    nodes = {f"{of}-{to}".replace("_", ""): (of, to) for of, to in REFUSED}
    given_nodes_in(bench, "Professional", {node: of for node, (of, _) in nodes.items()})
    mark = bench.audit.mark()

    for node, (_, to) in nodes.items():
        bench.create_pool(build_pool(node, schedule=to, nodes={"names": [node]}))

    for node, (of, to) in nodes.items():
        # The way out of isolation that stays open; all else takes a person.
        is_teardown = of in ("cgpu", "core_mem") and to == "share"
        reason = Reason.REQUIRES_TEARDOWN if is_teardown else Reason.REQUIRES_MANUAL_ACTION
        sample = expect_reason(bench, node, reason, pool=node)
        assert sample["message"].startswith(f"{of} -> {to}: ")
        expect_labels(bench, node, {MODE: of, "gpushare.io/pool": None})
        expect_offer(bench, node, EXPECTED_MODES["Professional"][of])
    assert our_node_writes(bench, mark, list(nodes)) == []


def test_a_person_takes_the_node_through_default_outside_the_pool(bench: Bench) -> None:
    bench.install("Professional")
    bench.add_nodes("n1", labels={MODE: "default"})
    bench.create_pool(build_pool(schedule="topology"))
    expect_mode(bench, "Professional", "topology")
    mark = bench.audit.mark()
    bench.change_pool(schedule="share")
    expect_reason(bench, "n1", "RequiresManualAction")
    assert our_node_writes(bench, mark, ["n1"]) == []

    bench.change_pool(nodes={"exclude": ["n1"]})
    expect(bench, "n1 is nobody's", lambda: not list_traces(bench.node("n1")))
    bench.label("n1", {MODE: "default"})
    bench.change_pool(nodes={"exclude": None})

    expect_mode(bench, "Professional", "share")
    assert bench.audit.our_deletions(mark) == []
