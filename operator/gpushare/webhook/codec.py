"""AdmissionReview on the wire: a Kubernetes admission.k8s.io/v1 envelope in, an answer out.

Objects stay raw JSON: a typed round trip would drop fields that are newer than this program.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

PODS = "v1/pods"


class MalformedReviewError(ValueError):
    """Not an AdmissionReview that can be answered; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Review:
    """What the API server asks about."""

    uid: str
    operation: str
    resource: str
    """As in a URL of the API: `v1/pods`, `apps/v1/deployments`, `v1/pods/status`."""
    namespace: str
    """The request's, which is authoritative; the object's own may be empty or a lie."""
    dry_run: bool
    """Nothing will come of it, whatever the answer."""
    object: Mapping[str, Any]
    """The object's JSON; empty where the operation carries none."""


def parse_review(body: bytes) -> Review:
    """A Review from a request's body.

    Raises `MalformedReviewError`; nesting deeper than orjson's limit of 1024 is among the causes.
    """
    try:
        envelope = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedReviewError(f"the body is not JSON: {error}") from error
    if (
        not isinstance(envelope, dict)
        or envelope.get("apiVersion") != API_VERSION
        or envelope.get("kind") != KIND
    ):
        raise MalformedReviewError(f"expected an {KIND} of {API_VERSION}")
    request = envelope.get("request")
    if not isinstance(request, dict):
        raise MalformedReviewError("the review has no request")
    uid = request.get("uid")
    if not uid or not isinstance(uid, str):
        raise MalformedReviewError("the request has no uid")
    found, dry_run = request.get("object"), request.get("dryRun")
    if found is not None and not isinstance(found, dict):
        raise MalformedReviewError("the request's object is no object")
    if dry_run is not None and not isinstance(dry_run, bool):
        raise MalformedReviewError("the request's dryRun is neither true nor false")
    return Review(
        uid,
        _text(request, "operation"),
        _parse_resource(request),
        _text(request, "namespace"),
        bool(dry_run),
        found or {},
    )


def _parse_resource(request: Mapping[str, Any]) -> str:
    resource = request.get("resource")
    if not isinstance(resource, dict):
        raise MalformedReviewError("the request has no resource")
    parts = (
        _text(resource, "group"),
        _text(resource, "version"),
        _text(resource, "resource"),
        _text(request, "subResource"),
    )
    return "/".join(filter(None, parts))


def _text(owner: Mapping[str, Any], key: str) -> str:
    value = owner.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedReviewError(f"{key} must be a string, not {type(value).__name__}")
    return value


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
        response["warnings"] = warnings
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})
