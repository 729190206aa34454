"""The AdmissionReview envelope."""

import base64
from typing import Any

import orjson
import pytest

from gpushare.webhook.codec import (
    MalformedReviewError,
    build_answer,
    parse_pod_review,
    parse_workload_review,
)
from tests.kit.values.manifests import build_gpu_pod, build_review, encode


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        encode({**build_review({}), "apiVersion": "admission.k8s.io/v1beta1"}),
        encode({**build_review({}), "kind": "Pod"}),
        encode({**build_review({}), "request": None}),
        encode(build_review({}, uid="")),
        encode(build_review([])),
        encode(build_review({}, dryRun="true")),
    ],
    ids=range(10),
)
def test_what_is_no_review_is_malformed(body: bytes) -> None:
    for parse in (parse_pod_review, parse_workload_review):
        with pytest.raises(MalformedReviewError):
            parse(body)


@pytest.mark.parametrize(
    "pod",
    [
        build_gpu_pod(nodeName=["hunter2"]),
        build_gpu_pod(nodeSelector={"hunter2": 7}),
        build_gpu_pod(containers="hunter2"),
    ],
)
def test_what_is_wrong_with_it_is_told_by_its_place_and_not_quoted(pod: Any) -> None:
    with pytest.raises(MalformedReviewError, match=r"request\.object\.spec\.") as caught:
        parse_pod_review(encode(build_review(pod)))
    assert "hunter2" not in str(caught.value)


def test_of_two_equal_keys_the_last_one_counts_as_it_does_for_the_api_server() -> None:
    body = encode(build_review({})).replace(b'"dryRun":false', b'"dryRun":false,"dryRun":true')
    assert parse_pod_review(body).dry_run


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


def test_an_answer_has_no_more_than_was_decided() -> None:
    answer = orjson.loads(build_answer("u-1"))
    assert answer["response"] == {"uid": "u-1", "allowed": True}
    refused = orjson.loads(build_answer("u-1", refusal="no pool isolates"))
    assert refused["response"] == {
        "uid": "u-1",
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden", "message": "no pool isolates"},
    }
