"""What the admission bench reads, compares, and fails for."""

from itertools import pairwise

import orjson
import pytest

from tests.bench.admission import alone, front
from tests.bench.admission.burst import POOLS, Burst, build_slice_pool
from tests.bench.admission.client import Loop
from tests.bench.admission.figures import Figures
from tests.bench.admission.front import EIGHT, LOADS, ONE, STEADY
from tests.bench.admission.histogram import Durations, parse_durations, parse_failed_open
from tests.bench.admission.pairing import FLOOR, build_floor
from tests.bench.admission.review import build_bodies
from tests.bench.admission.webhook import find_pod_entries
from tests.bench.figure import find_misses, summarize

METRICS = """
# TYPE apiserver_admission_webhook_admission_duration_seconds histogram
apiserver_admission_webhook_admission_duration_seconds_bucket{name="a",operation="CREATE",rejected="false",type="admit",le="0.005"} 7
apiserver_admission_webhook_admission_duration_seconds_bucket{name="a",operation="CREATE",rejected="false",type="admit",le="0.025"} 9
apiserver_admission_webhook_admission_duration_seconds_sum{name="a",operation="CREATE",rejected="false",type="admit"} 0.05
apiserver_admission_webhook_admission_duration_seconds_count{name="a",operation="CREATE",rejected="false",type="admit"} 10
apiserver_admission_webhook_admission_duration_seconds_sum{name="a",operation="CREATE",rejected="true",type="admit"} 0.01
apiserver_admission_webhook_admission_duration_seconds_count{name="a",operation="CREATE",rejected="true",type="admit"} 1
apiserver_admission_webhook_admission_duration_seconds_count{name="b",operation="CREATE",rejected="false",type="admit"} 100
apiserver_admission_webhook_fail_open_count{name="a",type="admit"} 2
apiserver_admission_webhook_fail_open_count{name="b",type="admit"} 4
"""  # noqa: E501


def test_the_calls_of_a_webhook_are_summed_whatever_was_answered() -> None:
    found = parse_durations(METRICS, {"a"})

    assert (found.calls, found.within_5ms) == (11, 7)
    assert found.seconds == pytest.approx(0.06)


def test_calls_that_failed_open_are_counted_by_name() -> None:
    assert parse_failed_open(METRICS, {"a", "c"}) == 2


def test_mean_and_share_are_those_of_the_calls_between_two_readings() -> None:
    between = Durations(30, 0.1, 24) - Durations(10, 0.02, 6)

    assert between.mean_ms == pytest.approx(4.0)
    assert between.share_5ms == pytest.approx(90.0)


def test_the_calls_of_several_slices_are_one_sum() -> None:
    together = Durations(30, 0.1, 24) + Durations(10, 0.1, 6)

    assert together.mean_ms == pytest.approx(5.0)
    assert together.share_5ms == pytest.approx(75.0)


def test_reviews_differ_and_are_as_large_as_those_of_the_api_server() -> None:
    bodies = build_bodies(12)

    assert len({orjson.loads(body)["request"]["uid"] for body in bodies}) == 12
    assert all(4_000 < len(body) < 6_000 for body in bodies)
    assert all(len(one) != len(next_one) for one, next_one in pairwise(bodies))


def test_the_floor_is_asked_under_the_conditions_of_ours_in_its_own_namespace() -> None:
    ours = {
        "name": "pods.gpushare.io",
        "clientConfig": {"url": "https://127.0.0.1:1/mutate-pods", "caBundle": "b3Vycw=="},
        "matchConditions": [{"name": "asks", "expression": "true"}],
        "namespaceSelector": {},
    }

    entry = build_floor(ours, "https://127.0.0.1:2/mutate-pods", b"ca")

    (selected,) = entry["namespaceSelector"]["matchExpressions"]
    assert entry["matchConditions"] == ours["matchConditions"]
    assert entry["clientConfig"] == {"url": "https://127.0.0.1:2/mutate-pods", "caBundle": "Y2E="}
    assert selected["values"] == [FLOOR]
    assert entry["name"] != ours["name"]


def test_only_entries_about_pods_count_as_asked_about_pods() -> None:
    entries = [
        {"name": "pods", "rules": [{"resources": ["pods"]}]},
        {"name": "workloads", "rules": [{"resources": ["deployments"]}]},
    ]

    assert [entry["name"] for entry in find_pod_entries({"webhooks": entries})] == ["pods"]


def test_each_pool_of_the_burst_has_nodes_of_its_own() -> None:
    selectors = [build_slice_pool(number)["spec"]["nodes"]["selector"] for number in range(POOLS)]

    assert len({orjson.dumps(selector) for selector in selectors}) == POOLS


def an_alone_round(floor: float = 100.0, ours: float = 120.0) -> alone.Round:
    loop = Loop(calls=1000, seconds=1.0, p50_ms=1.0, p99_ms=2.0, longest_ms=9.0)
    costs = {alone.FLOOR: floor, alone.OURS: ours, alone.MANY_POOLS: 180.0, alone.KOPF: 1500.0}
    return {
        (contestant, connections): alone.Turn(cost, loop)
        for contestant, cost in costs.items()
        for connections in alone.CONNECTIONS
    }


def a_turn(mean_ms: float, within_5ms: int) -> front.Turn:
    return front.Turn(Durations(1000, mean_ms, within_5ms), microseconds=100.0)


def a_front_round(**ours_ms: float) -> front.Round:
    means = {ONE: ours_ms.get("one", 2.2), EIGHT: ours_ms.get("eight", 2.2)}
    return {
        load: (a_turn(2.0, within_5ms=990), a_turn(means.get(load, 2.2), within_5ms=980))
        for load in LOADS
    }


def a_burst(failed_open: int = 0) -> Burst:
    return Burst(5000, 1000, 9.0, failed_open, changed=(3, 30), rss_mib=71.4)


def all_figures() -> Figures:
    return Figures(
        alone=[an_alone_round()],
        front=[a_front_round()],
        calls_without_gpu=0,
        burst=a_burst(),
        ready_seconds=[1.5, 1.1],
    )


def test_a_ratio_is_that_of_one_round_and_the_median_of_all() -> None:
    rounds = [an_alone_round(100, 110), an_alone_round(200, 260), an_alone_round(100, 500)]

    assert alone.find_cpu_ratio(alone.find_costs(rounds, alone.OURS, 8)) == pytest.approx(1.3)


def test_only_rounds_in_which_a_server_took_part_count_for_it() -> None:
    without = {key: turn for key, turn in an_alone_round().items() if key[0] != alone.KOPF}
    rounds = [an_alone_round(ours=100.0), without]

    assert alone.find_costs(rounds, alone.KOPF, 8, floor=alone.OURS) == [(100.0, 1500.0)]


def test_the_summary_has_every_figure() -> None:
    figures = list(all_figures().figures())

    assert list(find_misses(figures)) == []
    assert summarize("bench-admission", figures) == (
        "bench-admission cpu_ratio_1=1.20 cpu_ratio_8=1.20 cpu_ratio_32=1.20 "
        "cpu_ratio_1_many_pools=1.80 cpu_ratio_8_many_pools=1.80 cpu_ratio_32_many_pools=1.80 "
        "kopf_cpu_ratio=12.50 mean_ratio=1.10 mean_ratio_8=1.10 share_5ms_gap=1.00 "
        "calls_without_gpu=0 failed_open=0 rss_mib=71 ready_s=1.500"
    )


def test_what_was_not_measured_is_left_out() -> None:
    (figure,) = Figures(calls_without_gpu=0).figures()

    assert figure.name == "calls_without_gpu"


def test_the_steady_rate_may_be_left_out() -> None:
    loads = {load: turns for load, turns in a_front_round().items() if load in (ONE, EIGHT)}

    names = [figure.name for figure in Figures(front=[loads]).figures()]

    assert names == ["mean_ratio", "mean_ratio_8"]


def test_a_figure_beyond_its_bound_is_a_miss() -> None:
    figures = Figures(alone=[an_alone_round(ours=160)], calls_without_gpu=1, burst=a_burst(2))

    assert [miss.split(" is ")[0] for miss in find_misses(figures.figures())] == [
        "cpu_ratio_1",
        "cpu_ratio_8",
        "cpu_ratio_32",
        "calls_without_gpu",
        "failed_open",
    ]


def test_the_mean_with_eight_in_flight_has_a_bound_of_its_own() -> None:
    figures = Figures(front=[a_front_round(eight=3.1)])

    assert list(find_misses(figures.figures())) == ["mean_ratio_8 is 1.55, and may be 1.5 at most"]


def test_the_share_within_5_ms_is_compared_at_the_steady_rate() -> None:
    rounds = [{**a_front_round(), STEADY: (a_turn(2.0, 1000), a_turn(2.0, 965))}]

    assert front.find_share_gap(rounds) == pytest.approx(3.5)
