"""What the admission bench compares, and fails for."""

from itertools import pairwise

import orjson
import pytest

from bench import admission
from bench.core.figure import find_misses
from bench.core.reviewclient import Loop
from bench.core.reviews import build_bodies


def a_round(floor_us: float = 100.0, ours_us: float = 120.0) -> admission.Round:
    costs = {admission.FLOOR: floor_us, admission.SOME: ours_us, admission.MANY: 180.0}
    return {
        (pools, connections): Loop(1000, seconds=0.5, p50_ms=cost / 50, p99_ms=9.0, cpu_us=cost)
        for pools, cost in costs.items()
        for connections in admission.CONNECTIONS
    }


def test_reviews_differ_and_are_as_large_as_those_of_the_api_server() -> None:
    bodies = build_bodies(12)

    assert len({orjson.loads(body)["request"]["uid"] for body in bodies}) == 12
    assert all(4_000 < len(body) < 6_000 for body in bodies)
    assert all(len(one) != len(next_one) for one, next_one in pairwise(bodies))


def test_a_ratio_is_that_of_one_round_and_the_median_of_all() -> None:
    rounds = [a_round(100, 110), a_round(200, 260), a_round(100, 500)]

    figures = {figure.name: figure.value for figure in admission.list_figures(rounds)}

    assert figures["cpu_ratio_8"] == pytest.approx(1.3)
    assert figures["p50_ratio_8"] == pytest.approx(1.3)
    assert figures["rate_ratio_8"] == pytest.approx(1)


def test_the_cpu_time_with_few_pools_alone_has_a_bound() -> None:
    misses = find_misses(admission.list_figures([a_round(ours_us=160)]))

    assert [miss.split("=")[0] for miss in misses] == [
        "cpu_ratio_1",
        "cpu_ratio_8",
        "cpu_ratio_32",
    ]
