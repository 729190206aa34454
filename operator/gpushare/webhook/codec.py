"""AdmissionReview on the wire: a Kubernetes admission.k8s.io/v1 envelope in, an answer out.

Pods stay raw JSON: a typed round trip would drop fields that are newer than this program.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class MalformedReviewError(ValueError):
    """Not an AdmissionReview that can be answered; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Review:
    """What the API server asks about."""

    uid: str
    namespace: str
    """The request's, which is authoritative; the object's own may be empty or a lie."""
    creates_pod: bool
    """Whether this is what the webhook is for: creation of a pod, not of a subresource."""
    pod: Mapping[str, Any]
    """The object's JSON; empty where the operation carries none."""


def parse_review(body: bytes) -> Review:
    """A Review from a request's body.

    Raises `MalformedReviewError`; nesting deeper than orjson's limit of 1024 is among the causes.
    """
    try:
        envelope = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedReviewError(f"the body is not JSON: {error}") from error
    if not isinstance(envelope, dict) or (
        (envelope.get("apiVersion"), envelope.get("kind")) != (API_VERSION, KIND)
    ):
        raise MalformedReviewError(f"expected an {KIND} of {API_VERSION}")
    request = envelope.get("request")
    if not isinstance(request, dict):
        raise MalformedReviewError("the review has no request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid:
        raise MalformedReviewError("the request has no uid")
    creates_pod = (
        request.get("operation") == "CREATE"
        and request.get("resource") == {"group": "", "version": "v1", "resource": "pods"}
        and not request.get("subResource")
    )
    pod = request.get("object")
    if not isinstance(pod, dict):
        if creates_pod:
            raise MalformedReviewError("the request has no object")
        pod = {}
    return Review(uid, str(request.get("namespace") or ""), creates_pod, pod)


def plan_patch(pod: Mapping[str, Any], selector: Mapping[str, str]) -> list[dict[str, Any]]:
    """The JSON patch that adds `selector` to the node selector of `pod`, and nothing else."""
    if pod["spec"].get("nodeSelector") is None:
        return [{"op": "add", "path": "/spec/nodeSelector", "value": dict(selector)}]
    return [
        {"op": "add", "path": f"/spec/nodeSelector/{_escape(key)}", "value": value}
        for key, value in selector.items()
    ]


def _escape(key: str) -> str:
    """A key as part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def build_answer(
    uid: str,
    *,
    patch: Sequence[Mapping[str, Any]] = (),
    warnings: Sequence[str] = (),
    refusal: str | None = None,
) -> bytes:
    """The answer to the request `uid`: allowed with a patch and warnings, or refused with why."""
    response: dict[str, Any] = {"uid": uid, "allowed": refusal is None}
    if refusal is not None:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": refusal}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(patch)).decode()
    if warnings:
        response["warnings"] = list(warnings)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})
