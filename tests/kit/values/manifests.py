"""Builds manifests as JSON: users' pools, pods and workloads, the API server's nodes and pods, and
AdmissionReviews."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

Json = dict[str, Any]

NODE_POOL_LABEL = "alibabacloud.com/nodepool-id"
NODE_POOL = "np1"
IMAGE = "registry.example/app:1"
MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
CORE = "aliyun.com/gpu-core.percentage"
ALLOCATION = "scheduler.framework.gpushare.allocation"
CARD = "ALIYUN_COM_GPU_MEM_IDX"


def build_pool(
    name: str = "training",
    *,
    schedule: str = "share",
    edition: str = "Professional",
    node_pool: str = NODE_POOL,
    nodes: Json | None = None,
    **spec: Any,
) -> Json:
    """Build a pool of the nodes of `node_pool`, or of `nodes` as in its spec."""
    members = (
        {"selector": {"matchLabels": {NODE_POOL_LABEL: node_pool}}} if nodes is None else nodes
    )
    return {
        "apiVersion": "gpushare.io/v1alpha1",
        "kind": "GPUSharePool",
        "metadata": {"name": name},
        "spec": {"nodes": members, "edition": edition, "schedule": schedule, **spec},
    }


def build_pod(
    name: str,
    *,
    gib: int | None = 3,
    core: int | None = None,
    env: Mapping[str, str] | None = None,
    selects: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    owner: str = "",
    uid: str = "",
    **spec: Any,
) -> Json:
    """Build a pod that requests `gib` GiB of GPU memory, and `core` percent of a card's compute.
    `owner` is the kind of its controller, if any, and `uid` that one's."""
    asked = {
        key: str(value) for key, value in (("memory", gib), ("core", core)) if value is not None
    }
    container = build_container(env=env, **asked) | {"image": IMAGE}
    metadata: Json = {"name": name, "annotations": dict(annotations or {})}
    if labels:
        metadata["labels"] = dict(labels)
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "x", "controller": True}]
        if uid:
            metadata["ownerReferences"][0]["uid"] = uid
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [container],
            **({"nodeSelector": dict(selects)} if selects else {}),
            **spec,
        },
    }


def build_empty_table(name: str = "pools", **metadata: Any) -> Json:
    """Build an admission table without pools, as the controller writes it where there are none."""
    return {
        "apiVersion": "gpushare.io/v1alpha1",
        "kind": "GPUShareAdmissionTable",
        "metadata": {"name": name, **metadata},
        "spec": {"modes": {}, "pools": [], "count": 0, "omitted": 0},
    }


def build_whole_card_pod(name: str, *, cards: int = 1, **spec: Any) -> Json:
    pod = build_pod(name, gib=None, **spec)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(cards)}}
    return pod


def build_disruption_budget(
    name: str = "budget", *, selector: Json | None = None, allowed: int = 1
) -> Json:
    """Build a PodDisruptionBudget of namespace default that allows so many evictions now."""
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }


def build_workload(kind: str, name: str, *, replicas: int = 1, pod: Json) -> Json:
    """Build a Deployment, StatefulSet, DaemonSet, Job or CronJob of `pod`, whose pods have the
    label `app: NAME`."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels, "annotations": pod["metadata"]["annotations"]},
        "spec": dict(pod["spec"]),
    }
    spec: Json = {"template": template}
    if kind in ("Job", "CronJob"):
        template["spec"].setdefault("restartPolicy", "Never")
    else:
        spec["selector"] = {"matchLabels": labels}
    if kind in ("Deployment", "StatefulSet"):
        spec["replicas"] = replicas
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    if kind == "CronJob":
        spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": spec}}
    group = "batch" if kind in ("Job", "CronJob") else "apps"
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


# Nodes and pods with GPU memory, as the API server has them.


def build_node(
    name: str,
    *,
    gpus: int | None = None,
    total: int | None = None,
    address: str | None = None,
    labels: Mapping[str, str] | None = None,
    offers: Mapping[str, str] | None = None,
    ready: bool = False,
) -> Json:
    """Build a node that offers `total` units of GPU memory on its cards, and `offers`; with None it
    offers nothing. It has the condition Ready only with `ready`."""
    amounts = {
        key: str(value) for key, value in ((COUNT, gpus), (MEMORY, total)) if value is not None
    }
    amounts |= offers or {}
    addresses = [{"type": "Hostname", "address": name}]
    if address is not None:
        addresses.append({"type": "InternalIP", "address": address})
    return {
        "metadata": {"name": name, "uid": f"node-{name}", "labels": dict(labels or {})},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "addresses": addresses,
            "conditions": [{"type": "Ready", "status": "True"}] if ready else [],
            "nodeInfo": {"bootID": f"boot-{name}"},
        },
    }


def build_bound_pod(
    name: str,
    node: str,
    *limits: int,
    card: str | None = None,
    allocation: Mapping[str, Mapping[str, int]] | str | None = None,
    namespace: str = "default",
    phase: str = "Running",
) -> Json:
    """Build a pod on `node` whose containers have these limits, with a scheduler's annotations."""
    annotations: dict[str, str] = {}
    if card is not None:
        annotations[CARD] = card
    if allocation is not None:
        text = allocation if isinstance(allocation, str) else json.dumps(allocation)
        annotations[ALLOCATION] = text
    containers = [
        {"name": f"c{index}", "resources": {"limits": {MEMORY: str(limit)}}}
        for index, limit in enumerate(limits)
    ]
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"pod-{namespace}-{name}",
            "annotations": annotations,
        },
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": phase},
    }


# Pods and AdmissionReviews as the API server sends them.


def build_container(name: str = "main", *, env: Any = None, **quantities: str) -> dict[str, Any]:
    """Build a container; `memory` and `core` are its limits of gpu-mem and gpu-core.percentage."""
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
    """Build a pod that requests 3 GiB by default, without a generated name."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "binpack-", "namespace": "default"},
        "spec": {"containers": [build_container(memory="3")], **spec},
    }


def build_affinity(key: str, *, part: str = "matchExpressions", operator: str = "In") -> Any:
    requirement = {"key": key, "operator": operator, "values": ["x"]}
    terms = {"nodeSelectorTerms": [{part: [requirement]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def build_preference(*wishes: tuple[int, str, str, str]) -> Json:
    """Build a preferred node affinity of weights, labels, operators and values."""
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [requirement]}}
        for weight, key, operator, value in wishes
        for requirement in [{"key": key, "operator": operator, "values": [value]}]
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def build_review(pod: Any, **request: Any) -> dict[str, Any]:
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
    return orjson.dumps(review)


def list_places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List every place in a JSON document, as keys and indices."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    places = [place] if place else []
    for key, child in inner:
        places += list_places(child, (*place, key))
    return places


def put_at(value: Any, place: tuple[Any, ...], new: Any) -> None:
    """Put `new` into a place of a JSON document."""
    *path, last = place
    for key in path:
        value = value[key]
    value[last] = new
