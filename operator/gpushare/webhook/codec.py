"""Decodes an AdmissionReview (admission.k8s.io/v1), and encodes the answer.

Only the fields of the object that decisions read are decoded; a patch leaves all others alone.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import orjson

from gpushare import names
from gpushare.api.k8s.pod_shape import PodShape, Shape
from gpushare.webhook.pod_template import Resource

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

Object = TypeVar("Object")


class MalformedReviewError(ValueError):
    """The body is no valid AdmissionReview; the message says why."""


class Review(Shape, Generic[Object], frozen=True):
    """The request of an AdmissionReview."""

    uid: str
    resource: Resource
    operation: str | None = None
    sub_resource: str | None = None
    namespace: str | None = None
    """Namespace of the request; that in the object may be empty or wrong."""
    dry_run: bool | None = None
    """Whether the object is not stored, whatever the answer."""
    object: Object | None = None
    """None for an operation without an object."""


class _Envelope(Shape, Generic[Object], frozen=True):
    api_version: str
    kind: str
    request: Review[Object]


_POD = msgspec.json.Decoder(_Envelope[PodShape])
_WORKLOAD = msgspec.json.Decoder(_Envelope[dict[str, Any]])
_UNREAD = msgspec.json.Decoder(_Envelope[Shape])
_ABOUT_GPUS = tuple(
    word.encode() for word in ("aliyun.com/gpu-", f"{names.GROUP}/", *sorted(names.GPU_ENVIRONMENT))
)
"""Words of which an object has one at least whose pods are any business of the webhook's."""


def parse_pod_review(body: bytes) -> Review[PodShape]:
    """Parse the review of a pod from a request's body. Raises `MalformedReviewError`."""
    return _parse(body, _POD)


def parse_workload_review(body: bytes) -> Review[dict[str, Any]] | Review[Shape]:
    """Parse the review of a workload from a request's body. Raises `MalformedReviewError`.

    An object that says nothing of shared GPUs is not decoded: most are, and may be long.
    """
    if any(word in body for word in _ABOUT_GPUS):
        return _parse(body, _WORKLOAD)
    return _parse(body, _UNREAD)


def _parse(body: bytes, decoder: msgspec.json.Decoder[_Envelope[Object]]) -> Review[Object]:
    try:
        envelope = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # None of these errors quotes the body.
        raise MalformedReviewError(f"not an {KIND} that can be answered: {error}") from error
    if envelope.api_version != API_VERSION or envelope.kind != KIND:
        raise MalformedReviewError(f"expected an {KIND} of {API_VERSION}")
    if not envelope.request.uid:
        raise MalformedReviewError("the request has no uid")
    return envelope.request


def build_answer(
    uid: str,
    *,
    patch: Sequence[Mapping[str, Any]] = (),
    warnings: Sequence[str] = (),
    refusal: str | None = None,
) -> bytes:
    """Build the answer to the request `uid`: allowed with a patch and warnings, or refused."""
    response: dict[str, Any] = {"uid": uid, "allowed": refusal is None}
    if refusal is not None:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": refusal}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(patch)).decode()
    if warnings:
        response["warnings"] = warnings
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})
