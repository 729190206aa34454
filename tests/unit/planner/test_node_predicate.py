"""Which changes of a Node are decided about anew."""

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.daemonset import parse_daemonset
from gpushare.api.k8s.node import Node
from gpushare.core.planner.node_predicate import is_relevant, list_label_keys
from tests.kit.values.objects import NOW, a_node, a_pool

_SELECTOR = {
    "match_labels": {"group": "gpu"},
    "match_expressions": [{"key": "zone", "operator": "NotIn", "values": ["b"]}],
}
_POOL = a_pool(nodes={"selector": _SELECTOR})
_OTHERS: dict[str, Any] = {
    "annotations": {names.ANNOTATION_RETRY: "1"},
    "ready": False,
    "allocatable": {names.RESOURCE_GPU_MEMORY: 1},
    "memory_capacity": 1,
    "gpu_count": 1,
    "owned": frozenset({names.LABEL_POOL}),
    "managers": {names.LABEL_SCHEDULE: "autoscaler"},
    "written_at": {names.LABEL_SCHEDULE: NOW + timedelta(seconds=1)},
}
"""Another value of each field; True or a text of the others will do."""


def _change(key: str, daemonset: dict[str, Any] | None = None) -> bool:
    """Whether it is relevant that a node gets another value of a label."""
    daemonsets = [parse_daemonset(daemonset)] if daemonset else []
    old, new = a_node(labels={key: "a"}), a_node(labels={key: "b"})
    return is_relevant(old, new, list_label_keys([_POOL], daemonsets))


def test_a_label_that_nothing_asks_for_is_not_relevant() -> None:
    assert not _change("feature.node.kubernetes.io/cpu-model.id")


@pytest.mark.parametrize(
    "key",
    [*sorted(names.NODE_LABELS | names.CONTROL_PLANE_LABELS), names.LABEL_CARDS, "group", "zone"],
)
def test_a_label_of_ours_or_of_a_pools_selector_is_relevant(key: str) -> None:
    assert _change(key)


def test_a_label_that_is_published_for_admission_is_relevant() -> None:
    old, new = (a_node(labels={"rack": value}) for value in "ab")
    assert is_relevant(old, new, list_label_keys([_POOL], [], published=("rack",)))


@pytest.mark.parametrize("key", ["accelerator", "rack"])
def test_a_label_by_which_a_plugins_daemonset_selects_its_nodes_is_relevant(key: str) -> None:
    expression = {"key": "rack", "operator": "Exists"}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    spec = {"nodeSelector": {"accelerator": "a"}, "affinity": affinity}
    daemonset = {"metadata": {"name": "plugin"}, "spec": {"template": {"spec": spec}}}
    assert _change(key, daemonset)


@pytest.mark.parametrize(
    "field", [f.name for f in fields(Node) if f.compare and f.name not in ("name", "labels")]
)
def test_whatever_else_is_read_of_a_node_is_relevant(field: str) -> None:
    old = a_node()
    value = _OTHERS.get(field, True if isinstance(getattr(old, field), bool) else "other")
    assert is_relevant(old, replace(old, **{field: value}), frozenset())
