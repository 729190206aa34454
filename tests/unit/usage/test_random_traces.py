"""Advice on random recordings of random pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.analysis.usage.advice import AdviceCode, AdviceOptions
from gpushare.analysis.usage.reading import build_readings
from gpushare.analysis.usage.workloads import list_workloads, match_readings
from gpushare.api.k8s.pod_owner import Workload
from tests.kit.values.card_pods import GIB, HOUR, OLD_HAMI, a_card_pod

NAMES = tuple(f"web-7c9d5b8f6d-x2k4{letter}" for letter in "bcdf")
HOURS = 72
JOB = Workload("Job", "web-7c9d5b8f6d")
TRACE = st.lists(
    st.tuples(st.integers(1, HOURS), st.floats(0, 14)), min_size=1, max_size=40, unique_by=min
)
"""Hours and GiB."""
TRACES = st.dictionaries(st.sampled_from(NAMES), TRACE, min_size=1)


@pytest.mark.hypothesis
@given(TRACES, st.integers(1, 15), st.booleans(), st.floats(0, 2))
def test_no_pod_is_told_to_ask_for_less_than_it_ever_used(
    traces: dict[str, list[tuple[int, float]]], units: int, is_isolated: bool, headroom: float
) -> None:
    pods = [a_card_pod(name, units=units, is_isolated=is_isolated, workload=JOB) for name in traces]
    series = [
        (
            {"podnamespace": "a", "podname": name},
            sorted((hour * float(HOUR), gib * GIB) for hour, gib in trace),
        )
        for name, trace in traces.items()
    ]
    readings = build_readings(OLD_HAMI, series, (), HOUR)
    measured = match_readings(pods, {key: [each] for key, each in readings.items()})
    options = AdviceOptions(headroom)

    [found] = list_workloads(pods, measured, options, HOURS * float(HOUR))

    highest = max(gib for trace in traces.values() for _, gib in trace)
    seen_hours = len({hour for trace in traces.values() for hour, _ in trace})
    if found.advice.units is not None:
        assert found.advice.units >= min(highest, 15)
    if seen_hours * HOUR < options.min_data_seconds:
        assert found.advice.code not in (AdviceCode.LOWER, AdviceCode.NEVER_USED)
