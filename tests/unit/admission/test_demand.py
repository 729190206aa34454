"""What requirements on one label allow, taken together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.k8s.node_selection import Demand, join_demands, parse_demand

VALUES = ("a", "b", "", "1", "2", "3", "-4", "+2", "05", "x5", "1_0", "٣", "77", "-77")

requirements: st.SearchStrategy[tuple[str, list[str]]] = st.one_of(
    st.tuples(st.sampled_from(["In", "NotIn"]), st.lists(st.sampled_from(VALUES), max_size=3)),
    st.tuples(st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
    st.tuples(st.sampled_from(["Gt", "Lt"]), st.sampled_from([["1"], ["2"], ["4"], ["-5"]])),
)


def _holds(operator: str, values: list[str], value: str | None) -> bool:
    """As kube-scheduler's own label requirements have it."""
    number = int(value) if value in {"1", "2", "3", "-4", "+2", "05", "77", "-77"} else None
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return number is not None and number > int(values[0])
        case _:
            return number is not None and number < int(values[0])


@given(
    st.lists(requirements, min_size=1, max_size=4), st.one_of(st.none(), st.sampled_from(VALUES))
)
def test_together_they_admit_just_what_each_of_them_admits(
    needs: list[tuple[str, list[str]]], value: str | None
) -> None:
    together = join_demands([parse_demand(operator, values) for operator, values in needs])
    assert together.admits(value) is all(_holds(*need, value) for need in needs)
    if together.admits(value):
        assert not together.contradicts_itself


@pytest.mark.parametrize(
    ("demands", "contradicts"),
    [
        ([parse_demand("Gt", ["1"]), parse_demand("Lt", ["3"])], False),
        ([parse_demand("Gt", ["1"]), parse_demand("Lt", ["2"])], True),
        ([parse_demand("Exists", []), parse_demand("NotIn", ["a"])], False),
        ([parse_demand("DoesNotExist", []), parse_demand("NotIn", ["a"])], False),
        ([parse_demand("Gt", ["1", "2"])], True),
        ([parse_demand("Gt", [])], True),
        ([parse_demand("Gt", ["many"])], True),
        ([parse_demand("In", [])], True),
        ([parse_demand("In", ["4", "x"]), parse_demand("Gt", ["5"])], True),
        ([parse_demand("Exists", []), parse_demand("DoesNotExist", [])], True),
        ([parse_demand(["In"], ["a"])], True),
        ([parse_demand("In", ["a", "b"]), parse_demand("In", ["b"])], False),
    ],
)
def test_a_contradiction_is_what_no_label_can_solve(
    demands: list[Demand], contradicts: bool
) -> None:
    assert join_demands(demands).contradicts_itself is contradicts
