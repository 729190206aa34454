"""Builders of Kueue's objects as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.kit.values.manifests import Json

API_VERSION = "kueue.x-k8s.io/v1beta2"
GPU_MEM = "aliyun.com/gpu-mem"
POOL = "gpushare.io/pool"
QUEUE = "kueue.x-k8s.io/queue-name"


def build_flavor(name: str, pool: str | None = None, **labels: str) -> Json:
    """Build a flavor of a pool, or of nodes with other labels."""
    selected = {**({POOL: pool} if pool else {}), **labels}
    return _build("ResourceFlavor", name, {"nodeLabels": selected})


def build_cluster_queue(
    name: str, quotas: Mapping[str, Mapping[str, int | str]], **spec: Any
) -> Json:
    """Build a queue with quotas by resource of each flavor, all in one resource group."""
    covered = list(next(iter(quotas.values())))
    flavors = [build_quota(flavor, quota) for flavor, quota in quotas.items()]
    group = {"coveredResources": covered, "flavors": flavors}
    return _build(
        "ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **spec}
    )


def build_quota(flavor: str, quota: Mapping[str, int | str]) -> Json:
    resources = [{"name": each, "nominalQuota": str(n)} for each, n in quota.items()]
    return {"name": flavor, "resources": resources}


def build_local_queue(
    name: str = "team", cluster_queue: str = "team", *, namespace: str = "default"
) -> Json:
    queue = _build("LocalQueue", name, {"clusterQueue": cluster_queue})
    queue["metadata"]["namespace"] = namespace
    return queue


def build_cohort(name: str, quotas: Mapping[str, Mapping[str, int | str]]) -> Json:
    groups: Sequence[Json] = build_cluster_queue(name, quotas)["spec"]["resourceGroups"]
    return _build("Cohort", name, {"resourceGroups": groups})


def _build(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
