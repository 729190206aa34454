"""What an apply of a manifest leaves of a pool, by who owns what."""

import json
from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.forecast.kept_fields import find_kept_fields, keep_fields
from tests.kit.values.manifests import Json

SELECTOR = {"matchLabels": {"pool": "a"}}
FILE: Json = {
    "f:nodes": {"f:selector": {"f:matchLabels": {".": {}, "f:pool": {}}}},
    "f:schedule": {},
}
SPEC: Json = {
    "nodes": {"selector": SELECTOR, "exclude": ["n9"]},
    "schedule": "share",
    "priority": 50,
    "rollout": {"canary": 1, "maxUnavailable": 3},
}


def an_entry(manager: str, fields: Json, operation: str = "Apply") -> Json:
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:spec": fields}}


def a_pool(*entries: Json) -> Json:
    status = {"manager": "gpushare-operator", "operation": "Apply"}
    meta = {"name": "training", "managedFields": [*entries, status]}
    return {"metadata": meta, "spec": SPEC}


def a_file(**spec: Any) -> Json:
    return {"metadata": {"name": "training"}, "spec": {"nodes": {"selector": SELECTOR}, **spec}}


def find(live: Json, **spec: Any) -> list[str]:
    kept = find_kept_fields(live, a_file(**spec))
    return [f"spec.{'.'.join(each.path)} (owned by {each.manager})" for each in kept]


@pytest.mark.parametrize("operation", ["Apply", "Update"])
def test_what_others_own_and_the_file_leaves_out_stays(operation: str) -> None:
    live = a_pool(
        an_entry("kubectl", FILE),
        an_entry("boss", {"f:priority": {}, "f:nodes": {"f:exclude": {}}}, operation),
        an_entry("tuner", {"f:rollout": {".": {}, "f:canary": {}}}, operation),
    )
    assert find(live, schedule="share") == [
        "spec.nodes.exclude (owned by boss)",
        "spec.priority (owned by boss)",
        "spec.rollout.canary (owned by tuner)",
    ]


def test_what_the_file_says_counts() -> None:
    live = a_pool(an_entry("kubectl", FILE), an_entry("boss", {"f:priority": {}}))
    assert find(live, priority=100) == []
    assert find(live, priority=None) == ["spec.priority (owned by boss)"]


def test_what_nobody_but_the_file_owned_goes() -> None:
    live = a_pool(an_entry("kubectl", {**FILE, "f:priority": {}, "f:rollout": {"f:canary": {}}}))
    assert find(live, schedule="share") == []


@pytest.mark.parametrize(
    ("operation", "kept"), [("Apply", ["spec.priority (owned by boss)"]), ("Update", [])]
)
def test_a_shared_field_stays_where_its_other_owner_keeps_it(
    operation: str, kept: list[str]
) -> None:
    live = a_pool(
        an_entry("kubectl", {**FILE, "f:priority": {}}, operation),
        an_entry("boss", {"f:priority": {}}),
    )
    assert find(live) == kept


BEFORE: Json = {"nodes": {"selector": SELECTOR}, "rollout": {"canary": 1}}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (json.dumps({"spec": BEFORE}), ["spec.priority (owned by boss)"]),
        ("{}", ["spec.priority (owned by boss)", "spec.rollout.maxUnavailable (owned by boss)"]),
        (
            "no JSON",
            ["spec.priority (owned by boss)", "spec.rollout.maxUnavailable (owned by boss)"],
        ),
    ],
)
def test_what_kubectl_applied_before_goes_with_all_that_is_in_it(
    text: str, kept: list[str]
) -> None:
    owned: Json = {"f:priority": {}, "f:rollout": {"f:maxUnavailable": {}}}
    live = a_pool(an_entry("kubectl", FILE, "Update"), an_entry("boss", owned))
    live["metadata"]["annotations"] = {names.ANNOTATION_LAST_APPLIED: text}
    assert find(live) == kept
    assert "spec.rollout.maxUnavailable (owned by boss)" in find(live, rollout={"canary": 2})


def test_of_those_who_may_both_apply_files_neither_keeps_the_others_fields() -> None:
    other: Json = {"f:nodes": {"f:names": {'v:"n1"': {}}}, "f:priority": {}}
    assert find(a_pool(an_entry("kubectl", FILE), an_entry("sync", other))) == []


def test_an_owner_of_what_is_not_there_keeps_nothing() -> None:
    owned: Json = {"f:conflicts": {}, "f:priority": {"f:odd": {}}}
    assert find(a_pool(an_entry("kubectl", FILE), an_entry("boss", owned))) == []


def test_without_owners_nothing_is_kept() -> None:
    assert find({"metadata": {"name": "training"}, "spec": SPEC}) == []


def test_kept_fields_stand_beside_what_the_file_says() -> None:
    live = a_pool(
        an_entry("kubectl", FILE),
        an_entry("boss", {"f:priority": {}, "f:nodes": {"f:exclude": {}}}),
        an_entry("tuner", {"f:rollout": {"f:canary": {}}}),
    )
    given = a_file(schedule="cgpu", rollout=None)
    assert keep_fields(given, find_kept_fields(live, given))["spec"] == {
        "nodes": {"selector": SELECTOR, "exclude": ["n9"]},
        "schedule": "cgpu",
        "priority": 50,
        "rollout": {"canary": 1},
    }
