"""Builds the JSON patch (RFC 6902) that writes a decision into a pod."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpushare import names
from gpushare.api.k8s.pod_shape import MalformedPodError, PodShape
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.kube.client import escape_pointer

Operation = dict[str, Any]

MAX_ANNOTATIONS_BYTES = 256 * 1024
"""Limit of all annotations of an object (`TotalAnnotationSizeLimitB`, k8s.io/apimachinery)."""


def plan_patch(pod: PodShape, decision: AdmissionDecision) -> list[Operation]:
    """Plan the patch that writes `decision` into `pod`.

    Existing values are not written again, so a second patch changes nothing. A value that the
    pod's owner gave to a key of the selector stays. The annotation is left out where the pod's
    annotations would exceed their limit. Raises `MalformedPodError` for a pod without a spec or
    metadata.
    """
    patch: list[Operation] = []
    if decision.selector or decision.tolerations:
        if (spec := pod.spec) is None:
            raise MalformedPodError("the pod has no spec")
        selector = spec.node_selector
        missing = {k: v for k, v in decision.selector if selector is None or k not in selector}
        patch += _plan_entries("/spec/nodeSelector", selector, missing)
        if decision.tolerations:
            patch += _plan_items("/spec/tolerations", spec.tolerations, decision.tolerations)
    if decision.annotation:
        if (metadata := pod.metadata) is None:
            raise MalformedPodError("the pod has no metadata")
        annotations = metadata.annotations
        entry = {names.ANNOTATION_DECISION: decision.annotation}
        is_new = annotations is None or not entry.items() <= annotations.items()
        if is_new and _count_bytes({**(annotations or {}), **entry}) <= MAX_ANNOTATIONS_BYTES:
            patch += _plan_entries("/metadata/annotations", annotations, entry)
    return patch


def _count_bytes(annotations: Mapping[str, str]) -> int:
    return len("".join((*annotations, *annotations.values())).encode())


def _plan_entries(
    path: str, existing: Mapping[str, Any] | None, entries: Mapping[str, str]
) -> Iterator[Operation]:
    if existing is None:
        # An absent map and null are the same to the API, and nothing can be added inside either.
        if entries:
            yield {"op": "add", "path": path, "value": entries}
        return
    for key, value in entries.items():
        yield {"op": "add", "path": f"{path}/{escape_pointer(key)}", "value": value}


def _plan_items(
    path: str, existing: Sequence[Any] | None, items: Sequence[Mapping[str, Any]]
) -> Iterator[Operation]:
    if existing is None:
        yield {"op": "add", "path": path, "value": items}
        return
    for item in items:
        if item not in existing:
            yield {"op": "add", "path": f"{path}/-", "value": item}
