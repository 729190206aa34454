"""Which nodes a pool claims, and who gets a node that several claim."""

from datetime import timedelta

import pytest

from gpushare import names
from gpushare.api.pool import Nodes
from gpushare.api.selector import LabelSelector
from gpushare.core.membership import decide_claim, find_owner, is_member, matches_selector
from gpushare.core.records import NodeRecords
from tests.kit.members import applied
from tests.kit.values import NOW, a_node, a_pool


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


def test_a_named_node_is_a_member_without_any_label() -> None:
    assert is_member(Nodes(names=("gpu-1",)), a_node("gpu-1"))


def test_an_excluded_node_is_never_a_member() -> None:
    nodes = Nodes(names=("gpu-1",), exclude=("gpu-1",))
    assert not is_member(nodes, a_node("gpu-1"))


def test_an_empty_selector_selects_nothing() -> None:
    assert not is_member(Nodes(selector=LabelSelector(), names=("gpu-2",)), a_node("gpu-1"))


@pytest.mark.parametrize("label", sorted(names.CONTROL_PLANE_LABELS))
def test_a_control_plane_node_is_a_member_only_when_named(label: str) -> None:
    node = a_node("master", {label: ""})
    selector = LabelSelector(match_labels={"group": "gpu"})
    assert not is_member(Nodes(selector=selector), node)
    assert is_member(Nodes(selector=selector, names=("master",)), node)


def test_the_higher_priority_wins_a_node() -> None:
    low, high = a_pool("low", priority=1), a_pool("high", priority=2)
    claim = decide_claim(a_node(), None, [low, high])
    assert claim is not None
    assert (claim.winner.name, [pool.name for pool in claim.losers]) == ("high", ["low"])


def test_the_higher_priority_takes_a_node_from_the_pool_that_has_it() -> None:
    owner, high = a_pool("owner", priority=1), a_pool("high", priority=2)
    for pools in ([owner, high], [high, owner]):
        claim = decide_claim(a_node(), "owner", pools)
        assert claim is not None
        assert (claim.winner.name, claim.losers) == ("high", (owner,))


def test_equal_priorities_keep_the_current_owner() -> None:
    old = a_pool("a-old", created=NOW - timedelta(days=1))
    owner = a_pool("owner", created=NOW)
    claim = decide_claim(a_node(), "owner", [old, owner])
    assert claim is not None
    assert claim.winner.name == "owner"


def test_the_owner_is_the_pool_of_the_label_that_is_ours() -> None:
    node = a_node(labels={names.LABEL_POOL: "owner"}, owned=frozenset({names.LABEL_POOL}))
    assert find_owner(node, applied(pool="before")) == "owner"


@pytest.mark.parametrize("labels", [{}, {names.LABEL_POOL: "pretender"}])
def test_a_pool_label_that_somebody_removed_or_wrote_does_not_move_a_node(
    labels: dict[str, str],
) -> None:
    assert find_owner(a_node(labels=labels), applied(pool="owner")) == "owner"
    assert find_owner(a_node(labels=labels), NodeRecords()) is None


def test_without_an_owner_the_older_pool_wins_in_either_order() -> None:
    old = a_pool("z-old", created=NOW - timedelta(days=1))
    young = a_pool("a-young", created=NOW)
    for pools in ([old, young], [young, old]):
        claim = decide_claim(a_node(), None, pools)
        assert claim is not None
        assert claim.winner.name == "z-old"


def test_of_pools_that_are_equally_old_the_first_by_name_wins_in_either_order() -> None:
    one, other = a_pool("a"), a_pool("b")
    assert decide_claim(a_node(), None, [one, other]) == decide_claim(a_node(), None, [other, one])


def test_a_pool_that_is_being_deleted_claims_nothing() -> None:
    assert decide_claim(a_node(), None, [a_pool(deleting=True)]) is None
