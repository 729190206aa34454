"""What a workload is told to ask for."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushare.analysis.usage.advice import (
    Advice,
    AdviceCode,
    AdviceOptions,
    WorkloadFigures,
    advise,
)
from tests.kit.values.card_pods import GIB, a_card_pod

MIB = 2**20
DAY = 24 * 3600.0


def build_figures(**values: Any) -> WorkloadFigures:
    own = {key: values.pop(key) for key in FIGURES_OF_WORKLOAD & values.keys()}
    given: dict[str, Any] = {"peak_bytes": 2.0 * GIB, "observed_seconds": 7 * DAY} | own
    pod = a_card_pod(**values)
    given.setdefault("card_peak_bytes", (given["peak_bytes"] or 0.0) / pod.cards)
    return WorkloadFigures(pod, **given)


FIGURES_OF_WORKLOAD = {field.name for field in fields(WorkloadFigures)} - {"pod"}


def decide(headroom: float = 0.2, **values: Any) -> Advice:
    return advise(build_figures(**values), AdviceOptions(headroom))


@pytest.mark.parametrize(
    ("values", "code", "units"),
    [
        ({}, AdviceCode.LOWER, 3),
        ({"peak_bytes": 6.6 * GIB}, AdviceCode.FITS, None),
        ({"peak_bytes": None}, AdviceCode.NOT_MEASURED, None),
        ({"has_only_card_series": True, "peak_bytes": None}, AdviceCode.CARD_SHARED, None),
        ({"units": 0}, AdviceCode.SIZE_UNKNOWN, None),
        ({"is_node_known": False, "peak_bytes": 9.0 * GIB}, AdviceCode.NODE_UNREAD, None),
        ({"units": 15, "peak_bytes": 15.7 * GIB}, AdviceCode.FITS, None),
        ({"units": 10, "peak_bytes": 15.7 * GIB}, AdviceCode.ABOVE_REQUEST, 15),
        ({"peak_bytes": 9.0 * GIB}, AdviceCode.ABOVE_REQUEST, 11),
        ({"peak_bytes": 9.0 * GIB, "observed_seconds": 60.0}, AdviceCode.ABOVE_REQUEST, 11),
        ({"is_crashing": True}, AdviceCode.CRASHES, None),
        ({"observed_seconds": DAY - 1}, AdviceCode.TOO_LITTLE_DATA, None),
        ({"peak_bytes": 1.0 * MIB}, AdviceCode.NEVER_USED, None),
        ({"is_isolated": True, "peak_bytes": 7.7 * GIB}, AdviceCode.AT_LIMIT, None),
        ({"is_whole": True, "units": 15, "peak_bytes": 3.4 * GIB}, AdviceCode.SHARE_CARD, 5),
        ({"is_whole": True, "units": 15, "peak_bytes": 9.0 * GIB}, AdviceCode.FITS, None),
        ({"is_whole": True, "units": 30, "cards": 2}, AdviceCode.FITS, None),
        ({"cards": 2, "peak_bytes": 4.1 * GIB}, AdviceCode.LOWER, 6),
        ({"units": 20, "cards": 2, "card_peak_bytes": 6.0 * GIB}, AdviceCode.LOWER, 16),
        ({"is_plausible": False}, AdviceCode.IMPLAUSIBLE, None),
        ({"is_complete": False}, AdviceCode.PARTLY_MEASURED, None),
        ({"is_complete": False, "peak_bytes": 9.0 * GIB}, AdviceCode.ABOVE_REQUEST, 11),
        ({"is_single": False}, AdviceCode.SEVERAL_CONTAINERS, None),
        ({"is_single": False, "peak_bytes": 6.6 * GIB}, AdviceCode.FITS, None),
    ],
)
def test_each_rule_gives_its_advice(
    values: dict[str, Any], code: AdviceCode, units: int | None
) -> None:
    assert decide(**values) == Advice(code, units)


def test_the_guides_container_that_sees_3226_mib_of_its_3_gib_is_at_its_limit() -> None:
    assert decide(units=3, is_isolated=True, peak_bytes=3226.0 * MIB).code is AdviceCode.AT_LIMIT


def test_a_plugin_that_counts_mib_gets_advice_in_mib() -> None:
    advice = decide(units=8192, bytes_per_unit=MIB, card_units=15360)

    assert advice == Advice(AdviceCode.LOWER, 2458)


FIGURES = st.builds(
    build_figures,
    units=st.integers(1, 40),
    cards=st.integers(1, 4),
    card_units=st.sampled_from([0, 15, 40]),
    is_whole=st.booleans(),
    is_isolated=st.booleans(),
    peak_bytes=st.floats(0, 40 * GIB),
    observed_seconds=st.floats(0, 8 * DAY),
)


@pytest.mark.hypothesis
@given(FIGURES, st.floats(0, 3))
def test_advice_is_never_below_the_peak_nor_above_the_cards(
    figures: WorkloadFigures, headroom: float
) -> None:
    units, pod = advise(figures, AdviceOptions(headroom)).units, figures.pod
    if units is None:
        return

    on_cards = pod.card_units * pod.cards
    assert units * pod.bytes_per_unit >= (figures.peak_bytes or 0) or units == on_cards
    assert not on_cards or units <= on_cards


@pytest.mark.hypothesis
@given(FIGURES)
def test_nothing_is_lowered_before_a_day_of_data(figures: WorkloadFigures) -> None:
    advice = advise(figures, AdviceOptions())

    if figures.observed_seconds < DAY:
        assert advice.units is None or advice.code is AdviceCode.ABOVE_REQUEST


@pytest.mark.hypothesis
@given(FIGURES, st.floats(0, 3), st.floats(0, 3))
@example(build_figures(units=1, is_whole=True, peak_bytes=1.75 * GIB + 1), 0.0, 3.0)
def test_more_headroom_never_asks_for_less(
    figures: WorkloadFigures, one: float, other: float
) -> None:
    low, high = (advise(figures, AdviceOptions(each)) for each in sorted((one, other)))

    # Without advice a whole card stays one.
    kept = figures.pod.card_units if figures.pod.is_whole else figures.pod.units
    assert (low.units or kept) <= (high.units or kept)
