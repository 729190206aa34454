"""Which nodes a pool claims, and who gets a node that several claim."""

from datetime import timedelta

import pytest

from gpushare import names
from gpushare.api.pool import Nodes, Pool
from gpushare.api.selector import LabelSelector
from gpushare.core.membership import decide_claim, find_owner, is_member, matches_selector
from gpushare.core.records import NodeRecords
from tests.kit.values.node_plans import applied
from tests.kit.values.objects import NOW, a_node, a_pool


def _selector(key: str, operator: str, *values: str) -> LabelSelector:
    requirement = {"key": key, "operator": operator, "values": values}
    return LabelSelector.model_validate({"matchExpressions": [requirement]})


@pytest.mark.parametrize(
    ("operator", "values", "present", "absent"),
    [
        ("In", ("a", "b"), True, False),
        ("In", ("b",), False, False),
        ("NotIn", ("a",), False, True),
        ("NotIn", ("b",), True, True),
        ("Exists", (), True, False),
        ("DoesNotExist", (), False, True),
    ],
)
def test_selector_operators_mean_what_they_mean_in_kubernetes(
    operator: str, values: tuple[str, ...], present: bool, absent: bool
) -> None:
    selector = _selector("key", operator, *values)
    assert matches_selector(selector, {"key": "a"}) is present
    assert matches_selector(selector, {"other": "a"}) is absent


def test_all_requirements_of_a_selector_must_hold() -> None:
    selector = LabelSelector.model_validate(
        {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}
    )
    assert matches_selector(selector, {"a": "1", "b": ""})
    assert not matches_selector(selector, {"a": "1"})
    assert not matches_selector(selector, {"a": "2", "b": ""})


@pytest.mark.parametrize(
    ("nodes", "member"),
    [
        (Nodes(names=("gpu-1",)), True),
        (Nodes(names=("gpu-1",), exclude=("gpu-1",)), False),
        (Nodes(selector=LabelSelector(), names=("gpu-2",)), False),
    ],
    ids=["named, without any label", "named and excluded", "an empty selector"],
)
def test_a_node_is_a_member_by_its_name_unless_it_is_excluded(nodes: Nodes, member: bool) -> None:
    assert is_member(nodes, a_node("gpu-1")) is member


@pytest.mark.parametrize("label", sorted(names.CONTROL_PLANE_LABELS))
def test_a_control_plane_node_is_a_member_only_when_named(label: str) -> None:
    node = a_node("master", {label: ""})
    selector = LabelSelector(match_labels={"group": "gpu"})
    assert not is_member(Nodes(selector=selector), node)
    assert is_member(Nodes(selector=selector, names=("master",)), node)


def _claim(owner: str | None, *pools: Pool) -> tuple[str, list[str]]:
    """Who gets the node, in whichever order the pools come, and who does not."""
    found = [decide_claim(a_node(), owner, order) for order in (pools, pools[::-1])]
    assert found[0] == found[1]
    assert found[0] is not None
    return found[0].winner.name, [pool.name for pool in found[0].losers]


def test_the_higher_priority_takes_a_node_from_the_pool_that_has_it() -> None:
    owner, high = a_pool("owner", priority=1), a_pool("high", priority=2)
    assert _claim("owner", owner, high) == ("high", ["owner"])


@pytest.mark.parametrize(
    ("owner", "older", "younger", "winner"),
    [
        ("owner", "a-old", "owner", "owner"),
        (None, "z-old", "a-young", "z-old"),
    ],
    ids=["the owner keeps it", "the older one"],
)
def test_of_equal_priorities_the_owner_and_then_the_older_pool_wins(
    owner: str | None, older: str, younger: str, winner: str
) -> None:
    old = a_pool(older, created=NOW - timedelta(days=1))
    assert _claim(owner, old, a_pool(younger))[0] == winner


def test_the_owner_is_the_pool_of_the_label_that_is_ours() -> None:
    node = a_node(labels={names.LABEL_POOL: "owner"}, owned=frozenset({names.LABEL_POOL}))
    assert find_owner(node, applied(pool="before")) == "owner"


@pytest.mark.parametrize("labels", [{}, {names.LABEL_POOL: "pretender"}])
def test_a_pool_label_that_somebody_removed_or_wrote_does_not_move_a_node(
    labels: dict[str, str],
) -> None:
    assert find_owner(a_node(labels=labels), applied(pool="owner")) == "owner"
    assert find_owner(a_node(labels=labels), NodeRecords()) is None


def test_of_pools_that_are_equally_old_the_first_by_name_wins() -> None:
    assert _claim(None, a_pool("b"), a_pool("a")) == ("a", ["b"])


def test_a_pool_that_is_being_deleted_claims_nothing() -> None:
    assert decide_claim(a_node(), None, [a_pool(deleting=True)]) is None
