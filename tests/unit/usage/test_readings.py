"""What is made of an exporter's series."""

from math import inf

import pytest

from gpushare.analysis.usage.exporters import EXPORTERS, MIB, Exporter
from gpushare.analysis.usage.reading import build_readings, find_quantile
from tests.kit.values.card_pods import ACK_PROCESSES, OLD_HAMI

POD = {"podnamespace": "a", "podname": "p"}
CARDS = ({"deviceuuid": "1"}, {"deviceuuid": "2"})


def test_a_value_is_multiplied_by_its_unit() -> None:
    labels = {"NamespaceName": "a", "PodName": "p", "NodeName": "n1"}

    [found] = build_readings(ACK_PROCESSES, [(labels, [(60.0, 3226.0)])], (), 60).values()

    assert found.points == {60.0: 3226.0 * MIB}
    assert found.node == "n1"


def test_a_peak_between_two_points_counts() -> None:
    [found] = build_readings(OLD_HAMI, [(POD, [(60.0, 1.0)])], [(POD, 5.0)], 60).values()

    assert found.find_peak_bytes(1) == 5.0


def test_a_pod_that_is_too_short_for_a_point_has_its_peak() -> None:
    [found] = build_readings(OLD_HAMI, [], [(POD, 5.0)], 60).values()

    assert (found.find_peak_bytes(1), found.observed_seconds) == (5.0, 0.0)


def test_a_pod_whose_name_came_back_on_another_card_did_not_hold_both() -> None:
    peaks = [(POD | card, 3.0) for card in CARDS]

    [found] = build_readings(OLD_HAMI, [], peaks, 60).values()

    assert found.find_peak_bytes(1) == 3.0


def test_the_peaks_of_the_cards_of_one_pod_are_added() -> None:
    peaks = [(POD | card, 3.0) for card in CARDS]

    [found] = build_readings(OLD_HAMI, [], peaks, 60).values()

    assert found.find_peak_bytes(2) == 6.0


def test_the_peaks_of_the_containers_on_a_card_are_added() -> None:
    peaks = [(POD | {"ctrname": name}, 3.0) for name in ("one", "two")]

    [found] = build_readings(OLD_HAMI, [], peaks, 60).values()

    assert found.find_peak_bytes(1) == 6.0


@pytest.mark.parametrize("value", [-5.0, inf, 9.2e18])
def test_a_value_that_no_card_has_is_left_out_and_noted(value: float) -> None:
    points = [(60.0, value), (120.0, 1.0)]

    [found] = build_readings(OLD_HAMI, [(POD, points)], [(POD, value)], 60).values()

    assert (found.points, found.peaks_bytes, found.is_plausible) == ({120.0: 1.0}, (), False)


def test_a_pod_without_any_value_was_not_reported() -> None:
    assert build_readings(OLD_HAMI, [(POD, ())], (), 60) == {}


def test_a_point_far_from_all_others_stands_for_five_minutes() -> None:
    day = 86_400
    points = [(1.0 * day, 1.0), (3.0 * day, 1.0), (4.0 * day, 1.0)]

    [found] = build_readings(OLD_HAMI, [(POD, points)], (), day).values()

    assert found.observed_seconds == 300 + day + day


def test_one_card_may_be_fuller_than_the_others() -> None:
    peaks = [(POD | CARDS[0], 6.0), (POD | CARDS[1], 1.0)]

    [found] = build_readings(OLD_HAMI, [], peaks, 60).values()

    assert (found.find_peak_bytes(2), found.find_card_peak_bytes(2)) == (7.0, 6.0)


@pytest.mark.parametrize(
    ("fraction", "expected"), [(0.5, 2.0), (0.95, 4.0), (0.0, 1.0), (1.0, 4.0)]
)
def test_a_quantile_is_the_nearest_rank(fraction: float, expected: float) -> None:
    assert find_quantile([1.0, 2.0, 3.0, 4.0], fraction) == expected


@pytest.mark.parametrize("exporter", EXPORTERS, ids=lambda each: f"{each.series}-{each.pod}")
def test_labels_of_the_pod_are_not_taken_for_those_of_whom_prometheus_read(
    exporter: Exporter,
) -> None:
    assert not set(exporter.key) & set(exporter.added)
