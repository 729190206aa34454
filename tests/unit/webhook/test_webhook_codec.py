"""The AdmissionReview envelope."""

import base64
from copy import deepcopy
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.webhook.codec import (
    MalformedReviewError,
    build_answer,
    parse_review,
    plan_patch,
)
from tests.kit.reviews import build_gpu_pod, build_review, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)
selectors = st.none() | st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3)


def patched(pod: dict[str, Any], pool: str) -> Any:
    return jsonpatch.apply_patch(pod, plan_patch(pod, {"gpushare.io/pool": pool}))


def test_a_creation_of_a_pod_is_recognised() -> None:
    pod = build_gpu_pod()
    review = parse_review(encode(build_review(pod, namespace="team-a")))
    assert review.creates_pod
    assert (review.namespace, review.pod) == ("team-a", pod)
    assert review.uid == "705ab4f5-6393-11e8-b7cc-42010a800002"


@pytest.mark.parametrize(
    "request_fields",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"operation": "TELEPORT"},
        {"subResource": "ephemeralcontainers"},
        {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
        {"resource": None},
    ],
)
def test_anything_but_a_pods_creation_is_told_apart(request_fields: dict[str, Any]) -> None:
    assert not parse_review(encode(build_review(build_gpu_pod(), **request_fields))).creates_pod


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        encode({**build_review({}), "apiVersion": "admission.k8s.io/v1beta1"}),
        encode({**build_review({}), "kind": "Pod"}),
        encode({**build_review({}), "request": None}),
        encode(build_review({}, uid="")),
        encode(build_review({}, uid=7)),
        encode(build_review(None)),
        encode(build_review([])),
    ],
    ids=range(14),
)
def test_what_is_no_review_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedReviewError):
        parse_review(body)


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=4), selectors)
def test_a_patched_pod_is_the_pod_with_one_more_node_selector(
    unknown: dict[str, Any], selector: dict[str, str] | None
) -> None:
    pod = {**unknown, "spec": {**unknown, "nodeSelector": selector}}
    expected = deepcopy(pod)
    expected["spec"]["nodeSelector"] = {**(selector or {}), "gpushare.io/pool": "training"}
    assert patched(pod, "training") == expected


def test_a_pod_without_a_node_selector_gets_one() -> None:
    assert patched({"spec": {}}, "a") == {"spec": {"nodeSelector": {"gpushare.io/pool": "a"}}}


@given(selectors)
def test_a_patch_applied_twice_changes_nothing_more(selector: dict[str, str] | None) -> None:
    once = patched({"spec": {"nodeSelector": selector}}, "training")
    assert patched(once, "training") == once


def test_an_existing_node_selector_is_not_sent_again() -> None:
    pod = build_gpu_pod(nodeSelector={"zone": "a"})
    assert plan_patch(pod, {"gpushare.io/pool": "training"}) == [
        {"op": "add", "path": "/spec/nodeSelector/gpushare.io~1pool", "value": "training"}
    ]


def test_an_answer_carries_uid_patch_and_warnings() -> None:
    patch = [{"op": "add", "path": "/spec/nodeSelector", "value": {}}]
    answer = orjson.loads(build_answer("u-1", patch=patch, warnings=["look out"]))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert orjson.loads(base64.b64decode(response.pop("patch"))) == patch
    assert response == {
        "uid": "u-1",
        "allowed": True,
        "patchType": "JSONPatch",
        "warnings": ["look out"],
    }


def test_an_answer_without_a_patch_names_no_patch_type() -> None:
    answer = orjson.loads(build_answer("u-1"))
    assert answer["response"] == {"uid": "u-1", "allowed": True}


def test_a_refusal_says_why() -> None:
    answer = orjson.loads(build_answer("u-1", refusal="no pool isolates"))
    assert answer["response"] == {
        "uid": "u-1",
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden", "message": "no pool isolates"},
    }
