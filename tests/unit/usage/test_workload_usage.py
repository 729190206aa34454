"""Whose use a series is."""

from datetime import UTC, datetime

from gpushare.analysis.usage.advice import AdviceCode, AdviceOptions
from gpushare.analysis.usage.bill import HeldMemory, TimeSpan, sum_by_pool, sum_held
from gpushare.analysis.usage.card_pods import CardPod
from gpushare.analysis.usage.reading import PodKey, Reading
from gpushare.analysis.usage.workloads import WorkloadUsage, list_workloads, match_readings
from gpushare.api.k8s.pod_owner import Workload
from tests.kit.values.card_pods import ACK_PROCESSES, DCGM, GIB, HOUR, a_card_pod, a_reading

SPAN = TimeSpan(0.0, 10 * HOUR)
MEMBERS = {"n1": "train"}
GONE = ("a", "web-5d6f7c8b9d-x2k4z")
"""A pod of the same Deployment, of another ReplicaSet."""


def list_usage(pods: list[CardPod], readings: dict[PodKey, Reading]) -> list[WorkloadUsage]:
    measured = match_readings(pods, {key: [each] for key, each in readings.items()})
    return list_workloads(pods, measured, AdviceOptions(min_data_seconds=HOUR), SPAN.end)


def test_a_pod_that_is_gone_raises_the_peak_of_its_workload() -> None:
    readings = {
        ("a", "web-7c9d5b8f6d-x2k4z"): a_reading(1),
        GONE: a_reading(4),
    }

    [found] = list_usage([a_card_pod()], readings)

    assert found.figures.peak_bytes == 4 * GIB
    assert (found.advice.code, found.advice.units) == (AdviceCode.LOWER, 5)


def test_a_pod_of_another_namespace_with_the_same_name_is_another() -> None:
    [found] = list_usage([a_card_pod()], {("b", "web-7c9d5b8f6d-x2k4z"): a_reading(4)})

    assert found.advice.code is AdviceCode.NOT_MEASURED


def test_the_series_of_a_card_says_nothing_of_a_pod_that_shares_it() -> None:
    readings = {("a", "web-7c9d5b8f6d-x2k4z"): a_reading(14, DCGM)}

    [found] = list_usage([a_card_pod()], readings)

    assert found.advice.code is AdviceCode.CARD_SHARED


def test_the_series_of_a_card_is_the_use_of_the_pod_that_holds_it_alone() -> None:
    pod = a_card_pod(units=15, is_whole=True)

    [found] = list_usage([pod], {("a", pod.name): a_reading(3.4, DCGM)})

    assert (found.advice.code, found.advice.units) == (AdviceCode.SHARE_CARD, 5)


def test_the_series_of_an_idle_card_is_not_the_use_of_the_exporters_own_pod() -> None:
    pods = [a_card_pod(units=15, is_whole=True)]
    measured = match_readings(pods, {("gpu", "dcgm-x2k4z"): [a_reading(1, DCGM)]})

    assert not measured.pods


def test_the_workload_that_could_give_up_most_is_first() -> None:
    pods = [
        a_card_pod("one", workload=Workload("Pod", "one"), units=4),
        a_card_pod("two", workload=Workload("Pod", "two"), units=12),
    ]
    readings = {("a", "one"): a_reading(1), ("a", "two"): a_reading(1)}

    assert [each.workload.name for each in list_usage(pods, readings)] == ["two", "one"]


def test_two_exporters_of_one_pod_are_not_added_up() -> None:
    pod = a_card_pod()
    short = a_reading(4, first_hour=9)

    measured = match_readings([pod], {pod.key: [short, a_reading(2)]}).pods[pod.key]

    assert (max(measured.reading.points.values()), measured.peak_bytes) == (2 * GIB, 4 * GIB)


def test_two_replicas_at_the_same_time_are_one_time_of_data() -> None:
    job = Workload("Job", "batch")
    pods = [a_card_pod(name, workload=job) for name in ("batch-x2k4z", "batch-k4zx2")]

    [found] = list_usage(pods, {pod.key: a_reading(1, first_hour=6) for pod in pods})

    assert found.figures.observed_seconds == 5 * HOUR


def test_what_was_seen_before_the_oldest_pod_started_may_be_of_another_request() -> None:
    [found] = list_usage([a_card_pod()], {GONE: a_reading(1), a_card_pod().key: a_reading(1)})

    assert found.figures.observed_seconds == 5 * HOUR


def test_a_workload_with_a_pod_that_is_not_reported_is_not_told_to_ask_for_less() -> None:
    pods = [a_card_pod(), a_card_pod("web-7c9d5b8f6d-k4zx2")]

    [found] = list_usage(pods, {pods[0].key: a_reading(1)})

    assert found.advice.code is AdviceCode.PARTLY_MEASURED


def test_a_workload_above_its_request_comes_before_all_others() -> None:
    pods = [
        a_card_pod("above", workload=Workload("Pod", "above"), units=1),
        a_card_pod("lower", workload=Workload("Pod", "lower"), units=12),
    ]
    readings = {pod.key: a_reading(2) for pod in pods}

    assert [each.workload.name for each in list_usage(pods, readings)] == ["above", "lower"]


def sum_up(
    pods: list[CardPod],
    readings: dict[PodKey, Reading],
    allocated: dict[tuple[str, str], float] | None = None,
) -> list[tuple[str, str, float, float, float]]:
    """Sum up in GiB-hours: namespace, pool, asked, used, not measured."""
    measured = match_readings(pods, {key: [each] for key, each in readings.items()})
    unit = GIB * HOUR
    return [
        (row.namespace, row.pool, row.asked / unit, row.used / unit, row.unmeasured / unit)
        for row in sum_held(SPAN, pods, measured, MEMBERS, allocated)
    ]


def test_without_the_operators_metric_a_pod_holds_memory_since_it_started() -> None:
    pod = a_card_pod()
    reading = a_reading(2, first_hour=6)

    assert sum_up([pod], {pod.key: reading}) == [("a", "train", 40, 10, 0)]


def test_a_pod_that_did_not_start_holds_nothing() -> None:
    assert sum_up([a_card_pod(since=None)], {}) == []


def test_with_the_operators_metric_shared_memory_counts_once() -> None:
    pod = a_card_pod(since=datetime.fromtimestamp(0, UTC))
    allocated = {("a", "train"): 80.0 * GIB * HOUR}

    assert sum_up([pod], {pod.key: a_reading(2)}, allocated) == [("a", "train", 80, 20, 0)]


def test_whole_cards_count_beside_the_operators_metric() -> None:
    pod = a_card_pod(units=15, is_whole=True)

    [row] = sum_up([pod], {pod.key: a_reading(2, DCGM)}, {})

    assert row[2] == 75


def test_what_no_exporter_reports_is_not_measured_rather_than_unused() -> None:
    assert sum_up([a_card_pod()], {}) == [("a", "train", 40, 0, 40)]


def test_what_pods_held_that_are_gone_and_were_never_reported_is_not_measured() -> None:
    allocated = {("a", "train"): 80.0 * GIB * HOUR}

    assert sum_up([], {}, allocated) == [("a", "train", 80, 0, 80)]


def test_what_is_not_measured_is_never_more_than_what_was_asked() -> None:
    allocated = {("a", "train"): 20.0 * GIB * HOUR}

    assert sum_up([a_card_pod()], {}, allocated) == [("a", "train", 20, 0, 20)]


def test_a_pod_that_is_gone_is_in_the_pool_of_its_node() -> None:
    gone = a_reading(2, ACK_PROCESSES, node="n1")

    assert sum_up([], {("b", "job-x2k4z"): gone}) == [("b", "train", 0, 20, 0)]


def test_a_pod_that_is_gone_is_in_the_pool_of_its_workload() -> None:
    [row] = sum_up([a_card_pod()], {GONE: a_reading(2)})

    assert row[:2] == ("a", "train")


def test_rows_of_a_pool_are_added_up() -> None:
    rows = [HeldMemory("a", "train", 1, 2, 3), HeldMemory("b", "train", 1, 2, 3)]

    assert sum_by_pool(rows) == [HeldMemory("", "train", 2, 4, 6)]
