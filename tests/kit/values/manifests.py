"""Pools, pods and workloads as people write them."""

from collections.abc import Mapping
from typing import Any

from tests.kit.values.admission_reviews import build_container

Json = dict[str, Any]

NODE_POOL_LABEL = "alibabacloud.com/nodepool-id"
NODE_POOL = "np1"
IMAGE = "registry.example/app:1"


def build_pool(
    name: str = "training",
    *,
    schedule: str = "share",
    edition: str = "Professional",
    node_pool: str = NODE_POOL,
    nodes: Json | None = None,
    **spec: Any,
) -> Json:
    """A pool of the nodes of `node_pool`, or of `nodes` as in its spec."""
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
    **spec: Any,
) -> Json:
    """A pod that asks for `gib` GiB of GPU memory, and `core` percent of a card's compute."""
    asked = {
        key: str(value) for key, value in (("memory", gib), ("core", core)) if value is not None
    }
    container = build_container(env=env, **asked) | {"image": IMAGE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {
            "containers": [container],
            **({"nodeSelector": dict(selects)} if selects else {}),
            **spec,
        },
    }


def build_whole_card_pod(name: str, *, cards: int = 1, **spec: Any) -> Json:
    """A pod that asks for whole cards."""
    pod = build_pod(name, gib=None, **spec)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(cards)}}
    return pod


def build_workload(kind: str, name: str, *, replicas: int = 1, pod: Json) -> Json:
    """A Deployment, StatefulSet, DaemonSet, Job or CronJob of `pod`.

    Its pods carry the label `app: NAME`.
    """
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
