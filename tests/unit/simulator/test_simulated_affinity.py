"""The kubelet's second look at what a pod selects."""

from typing import Any

import pytest

from devcluster.simulator.affinity import selects
from devcluster.simulator.objects import Node, Pod

NODE = Node("n1", labels={"mode": "cgpu", "cards": "4"})


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        ({"key": "mode", "operator": "In", "values": ["share", "cgpu"]}, True),
        ({"key": "mode", "operator": "NotIn", "values": ["share"]}, True),
        ({"key": "none", "operator": "NotIn", "values": ["share"]}, True),
        ({"key": "mode", "operator": "Exists"}, True),
        ({"key": "none", "operator": "Exists"}, False),
        ({"key": "none", "operator": "DoesNotExist"}, True),
        ({"key": "cards", "operator": "Gt", "values": ["3"]}, True),
        ({"key": "cards", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "mode", "operator": "Unknown"}, False),
    ],
)
def test_each_operator_means_what_kubernetes_says(
    requirement: dict[str, Any], matches: bool
) -> None:
    pod = Pod("uid", "p", node_affinity=({"matchExpressions": [requirement]},))
    assert selects(pod, NODE) is matches


def test_terms_are_alternatives_and_an_empty_one_matches_nothing() -> None:
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert selects(Pod("uid", "p", node_affinity=({}, here)), NODE)
    assert not selects(Pod("uid", "p", node_affinity=({},)), NODE)


def test_the_node_selector_has_to_match_as_well() -> None:
    assert selects(Pod("uid", "p", node_selector={"mode": "cgpu"}), NODE)
    assert not selects(Pod("uid", "p", node_selector={"mode": "share"}), NODE)
