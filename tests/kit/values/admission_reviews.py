"""Pods and AdmissionReviews as the API server sends them."""

from typing import Any

import orjson

MEMORY = "aliyun.com/gpu-mem"
CORE = "aliyun.com/gpu-core.percentage"


def build_container(name: str = "main", *, env: Any = None, **quantities: str) -> dict[str, Any]:
    """A container; `memory` and `core` are its limits of gpu-mem and gpu-core.percentage."""
    keys = {"memory": MEMORY, "core": CORE}
    limits = {keys[key]: quantity for key, quantity in quantities.items()}
    container: dict[str, Any] = {
        "name": name,
        "image": "app",
        "resources": {"limits": limits, "requests": dict(limits)},
    }
    if env is not None:
        container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    return container


def build_gpu_pod(**spec: Any) -> dict[str, Any]:
    """A pod that asks for 3 GiB, unless `spec` says otherwise; its name is still to be made."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "binpack-", "namespace": "default"},
        "spec": {"containers": [build_container(memory="3")], **spec},
    }


def build_affinity(key: str, *, part: str = "matchExpressions", operator: str = "In") -> Any:
    """Required node affinity with one requirement."""
    requirement = {"key": key, "operator": operator, "values": ["x"]}
    terms = {"nodeSelectorTerms": [{part: [requirement]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def build_review(pod: Any, **request: Any) -> dict[str, Any]:
    """The AdmissionReview of a pod's creation."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "default",
            "operation": "CREATE",
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            **request,
        },
    }


def encode(review: Any) -> bytes:
    """JSON, as on the wire."""
    return orjson.dumps(review)
