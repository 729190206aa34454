"""Which pools are asked about a node."""

from typing import Any

import pytest

from gpushare.core.ownership.pool_index import PoolIndex
from tests.kit.values.objects import a_node, a_pool

_ELSEWHERE = a_pool("elsewhere", nodes={"selector": {"match_labels": {"group": "b"}}})


@pytest.mark.parametrize(
    "nodes",
    [
        {"selector": {"match_labels": {"group": "gpu"}}},
        {"selector": {"match_labels": {"zone": "a", "group": "gpu"}}},
        {"selector": {"match_expressions": [{"key": "zone", "operator": "Exists"}]}},
        {"selector": {}},
        {"names": ["gpu-1"]},
        {"names": ["gpu-1"], "selector": {"match_labels": {"group": "b"}}},
    ],
    ids=["a label", "two labels", "an expression", "all nodes", "a name", "a name or a label"],
)
def test_a_pool_that_may_claim_a_node_is_asked(nodes: dict[str, Any]) -> None:
    pool = a_pool("asked", nodes=nodes)
    index = PoolIndex([_ELSEWHERE, pool])
    assert index.find_candidates(a_node("gpu-1", {"zone": "a"})) == [pool]


def test_a_pool_of_another_label_or_name_is_not_asked() -> None:
    index = PoolIndex([_ELSEWHERE, a_pool("named", nodes={"names": ["gpu-2"]})])
    assert index.find_candidates(a_node("gpu-1")) == []


def test_a_pool_that_names_a_node_and_selects_it_is_asked_once() -> None:
    pool = a_pool(nodes={"names": ["gpu-1"], "selector": {"match_labels": {"group": "gpu"}}})
    assert PoolIndex([pool]).find_candidates(a_node("gpu-1")) == [pool]
