"""The Basic edition: every change is allowed, and only the flip of isolation needs a restart."""

from itertools import pairwise, permutations

import pytest

from tests.integration.nodechange.node_modes import EXPECTED_MODES, WHOLE, expect_mode, take_tour
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect_labels, expect_pool_ready, expect_reason
from tests.kit.values.manifests import build_pool

TOUR = ("default", "share", "cgpu", "share", "default", "cgpu", "default")

pytestmark = pytest.mark.usefixtures("operator")


def test_a_node_goes_through_the_modes_and_each_of_them_works(bench: Bench) -> None:
    assert set(pairwise(TOUR)) == set(permutations(EXPECTED_MODES["Basic"], 2))
    take_tour(bench, "Basic", *TOUR)


def test_a_node_that_leaves_sharing_is_awaited_until_its_whole_cards_are_back(
    bench: Bench,
) -> None:
    bench.install("Basic")
    bench.add_nodes("n1", faults={"whole_card_never_returns": True})
    bench.create_pool(build_pool(edition="Basic", schedule="share"))
    expect_pool_ready(bench, nodes=1)

    bench.change_pool(schedule="default")

    assert WHOLE in expect_reason(bench, "n1", "ResourceNotReady")["message"]
    expect_labels(bench, "n1", EXPECTED_MODES["Basic"]["default"].labels)
    assert bench.node("n1")["spec"].get("unschedulable") is True
    bench.set_faults("n1")
    expect_mode(bench, "Basic", "default")
