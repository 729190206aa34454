"""What a pod uses at one moment, beside what it asked for."""

from typing import Any

import pytest

from gpushare.analysis.usage.card_pods import CardPod
from gpushare.analysis.usage.current_use import PodUse, list_use
from gpushare.analysis.usage.exporters import Exporter
from gpushare.analysis.usage.reading import Reading, build_readings
from tests.kit.values.card_pods import DCGM, GIB, OLD_HAMI, a_card_pod

MIB = 2**20


def read(exporter: Exporter, name: str, value: float) -> Reading:
    labels = {exporter.namespace: "a", exporter.pod: name}
    found = build_readings(exporter, [(labels, ((0.0, value),))], (), 1)
    return found["a", name]


def use_of(pod: CardPod, *readings: Reading) -> PodUse:
    (found,) = list_use([pod], {("a", pod.name): readings} if readings else {})
    return found


def test_what_nothing_reports_is_unknown_and_not_zero() -> None:
    found = use_of(a_card_pod("p"))
    assert (found.used_bytes, found.has_series_of_card, found.is_beyond) == (None, False, False)
    assert use_of(a_card_pod("p"), read(OLD_HAMI, "p", 0.0)).used_bytes == 0


def test_the_series_of_a_card_is_the_use_of_a_pod_that_holds_it_alone_and_of_no_other() -> None:
    card = read(DCGM, "p", 3 * 1024)
    assert use_of(a_card_pod("p", is_whole=True), card).used_bytes == 3 * GIB
    shared = use_of(a_card_pod("p"), card)
    assert (shared.used_bytes, shared.has_series_of_card) == (None, True)


def test_of_several_exporters_the_first_one_counts_and_they_are_not_added_up() -> None:
    found = use_of(
        a_card_pod("p", is_whole=True), read(OLD_HAMI, "p", GIB), read(DCGM, "p", 2 * 1024)
    )
    assert found.used_bytes == GIB


@pytest.mark.parametrize(
    ("used", "bounds", "is_beyond"),
    [
        (8 * GIB, {}, False),
        (8 * GIB + MIB, {}, True),
        # 3 GiB in mode cgpu are 3226 MiB.
        (8 * GIB * 1.06, {"is_isolated": True}, False),
        (8 * GIB * 1.2, {"is_isolated": True}, True),
        (8 * GIB * 1.06, {"is_whole": True}, False),
        (8 * GIB, {"units": 0}, False),
    ],
)
def test_use_is_beyond_the_request_where_it_is_more_than_the_driver_may_add(
    used: float, bounds: dict[str, Any], is_beyond: bool
) -> None:
    assert use_of(a_card_pod("p", **bounds), read(OLD_HAMI, "p", used)).is_beyond is is_beyond
