"""The Basic edition: every change is allowed, and only the flip of isolation needs a restart."""

from itertools import pairwise, permutations

import pytest

from tests.integration.nodechange.node_modes import EXPECTED_MODES, take_tour
from tests.kit.bench import Bench

TOUR = ("default", "share", "cgpu", "share", "default", "cgpu", "default")

pytestmark = pytest.mark.usefixtures("operator")


def test_a_node_goes_through_the_modes_and_each_of_them_works(bench: Bench) -> None:
    assert set(pairwise(TOUR)) == set(permutations(EXPECTED_MODES["Basic"], 2))
    take_tour(bench, "Basic", *TOUR)
