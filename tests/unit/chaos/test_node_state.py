"""What the watcher takes from a Node and a Pod."""

import json
from typing import Any

import pytest

from tests.chaos.node_state import ChangeSeen, parse_node
from tests.kit.values.manifests import Json

CHANGE = {
    "pool": "training",
    "edition": "Basic",
    "from": "share",
    "to": "cgpu",
    "phase": "Restarting",
    "since": "2026-01-02T03:04:05.000+00:00",
}


def build_node(*, owned: Json | None = None, **more: Any) -> Json:
    entry = {"manager": "gpushare-operator", "operation": "Apply", "fieldsV1": owned or {}}
    meta = {"name": "n1", "uid": "u1", "resourceVersion": "7", "managedFields": [entry], **more}
    return {"metadata": meta, "spec": {}, "status": {}}


def build_owned(*labels: str, annotations: tuple[str, ...] = ()) -> Json:
    return {
        "f:metadata": {
            "f:labels": {f"f:{label}": {} for label in labels},
            "f:annotations": {".": {}, **{f"f:{each}": {} for each in annotations}},
        },
        "f:spec": {"f:unschedulable": {}},
    }


def build_change(**more: Any) -> Json:
    return {"gpushare.io/change": json.dumps({**CHANGE, **more})}


@pytest.mark.parametrize(
    ("owned", "field"),
    [
        (build_owned("kubernetes.io/hostname"), "f:metadata f:labels f:kubernetes.io/hostname"),
        (build_owned(annotations=("note",)), "f:metadata f:annotations f:note"),
        ({"f:spec": {"f:taints": {}}}, "f:spec f:taints"),
        ({"f:status": {"f:capacity": {"f:x": {}}}}, "f:status f:capacity f:x"),
        # The change on this node is one of the Basic edition.
        (build_owned("ack.node.gpu.schedule"), "f:metadata f:labels f:ack.node.gpu.schedule"),
    ],
)
def test_any_other_field_that_our_manager_owns_is_strange(owned: Json, field: str) -> None:
    node = parse_node(build_node(owned=owned, annotations=build_change()))
    assert node.strange_fields == (field,)


def test_a_change_under_way_is_read_from_its_record() -> None:
    node = parse_node(build_node(annotations=build_change()))
    assert node.change == ChangeSeen("share", "cgpu", CHANGE["since"])
    assert node.pools == {"training"}
