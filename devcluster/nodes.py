"""Builds simulated nodes: KWOK nodes that look like ACK's when they join, with or without cards."""

import hashlib
import ipaddress
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any, Literal

from devcluster import names
from devcluster.cluster import Cluster
from devcluster.waiting import wait_until

_IN_FLIGHT = 8
_READY_SECONDS = 180
# nvidia-smi shows 16130 MiB on a card whose plugin offers 15 (guide 000): the plugin floors to GiB.
_MIB_BEYOND_WHOLE_GIB = 770
_FAKE = {"kwok.x-k8s.io/node": "fake"}

Taints = Sequence[Mapping[str, str]]
OtherKind = Literal["CPU", "Windows", "virtual"]
"""Kinds of nodes without cards."""
_VIRTUAL_TAINT = {
    "key": "virtual-kubelet.io/provider",
    "value": "alibabacloud",
    "effect": "NoSchedule",
}


def build_gpu_node(
    name: str,
    *,
    cards: int = 1,
    card_memory_gib: int = 15,
    card_name: str = "Tesla-V100-SXM2-16GB",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Taints = (),
) -> dict[str, Any]:
    """Build a Node manifest with ``cards`` equal cards of ``card_memory_gib`` GiB each.

    Its InternalIP is the one in the name (``cn-beijing.192.168.8.4``), else made from the name.
    Extended resources are absent, as before any device plugin has registered.
    """
    memory_mib = card_memory_gib * 1024 + _MIB_BEYOND_WHOLE_GIB
    cards_of_it = {
        names.NVIDIA_COUNT: str(cards),
        names.NVIDIA_MEM: f"{memory_mib}MiB",
        names.NVIDIA_NAME: card_name,
    }
    played = {
        **_FAKE,
        names.CARDS: str(cards),
        names.CARD_MEMORY_GIB: str(card_memory_gib),
    }
    return _build_node(
        name,
        {**cards_of_it, **(labels or {})},
        {**played, **(annotations or {})},
        taints=taints,
    )


def build_other_node(
    kind: OtherKind, name: str, *, labels: Mapping[str, str] | None = None, taints: Taints = ()
) -> dict[str, Any]:
    """Build a Node manifest without cards, on which a device plugin's pod stays Pending."""
    match kind:
        case "CPU":
            instance = {"node.kubernetes.io/instance-type": "ecs.g7.xlarge"}
            return _build_node(name, {**instance, **(labels or {})}, _FAKE, taints=taints)
        case "Windows":
            return _build_node(name, labels or {}, _FAKE, taints=taints, system="windows")
        case "virtual":
            marks = {"type": "virtual-kubelet", **(labels or {})}
            return _build_node(name, marks, _FAKE, taints=(_VIRTUAL_TAINT, *taints))


def build_process_node(name: str) -> dict[str, Any]:
    """Build a Node manifest without GPUs, whose pods are processes (see devcluster.processnode)."""
    taint = {"key": names.RUNS_PROCESSES, "value": "true", "effect": "NoSchedule"}
    return _build_node(name, {names.RUNS_PROCESSES: "true"}, {}, taints=[taint])


def _build_node(
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    *,
    taints: Taints,
    system: str = "linux",
) -> dict[str, Any]:
    spec = {"taints": [dict(taint) for taint in taints]} if taints else {}
    capacity = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                # kube-controller-manager adds the first two some time later, where they are not.
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": system,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": system,
                **labels,
            },
            "annotations": dict(annotations),
        },
        # As of an ECS instance.
        "spec": {"providerID": f"cn-dev.i-{uuid.uuid5(uuid.NAMESPACE_DNS, name).hex}", **spec},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": internal_ip(name)},
                {"type": "Hostname", "address": name},
            ],
            "capacity": capacity,
            "allocatable": dict(capacity),
            # Ready from the start: KWOK's stage makes about 75 nodes a second so.
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"boot.{name}")),
                "containerRuntimeVersion": "containerd://2.1.0",
                "kernelVersion": "5.10.134",
                "kubeProxyVersion": "",
                "kubeletVersion": "",
                "machineID": "",
                "operatingSystem": system,
                "osImage": "Alibaba Cloud Linux 3" if system == "linux" else "Windows Server 2022",
                "systemUUID": "",
            },
        },
    }


def internal_ip(name: str) -> str:
    """Return the address of node ``name``: four numbers in it, else one of 10.0.0.0/8 by hash."""
    if match := re.search(r"\d+\.\d+\.\d+\.\d+", name):
        return match[0]
    digest = hashlib.sha256(name.encode()).digest()
    return str(ipaddress.ip_address(bytes([10, *digest[:3]])))


def add_nodes(cluster: Cluster, manifests: Iterable[dict[str, Any]]) -> None:
    """Create the nodes and wait until pods can be placed on all of them.

    The kubelets have the control plane's version.
    Raises :class:`~devcluster.apiserver.ApiError` where one exists already.
    """
    version = cluster.api.call("GET", "/version")["gitVersion"]
    nodes = [deepcopy(manifest) for manifest in manifests]
    for node in nodes:
        node["status"]["nodeInfo"]["kubeletVersion"] = version
    _for_each(lambda node: cluster.api.call("POST", "/api/v1/nodes", node), nodes)
    wanted = {node["metadata"]["name"] for node in nodes}

    def all_open() -> bool:
        return wanted <= {node["metadata"]["name"] for node in list_nodes(cluster) if is_open(node)}

    wait_until(
        all_open,
        expectation=f"all of {len(wanted)} added nodes are Ready",
        timeout_seconds=_READY_SECONDS,
        # Listing thousands ten times a second would slow down what it waits for.
        poll_seconds=max(0.1, len(wanted) / 1000),
    )


def remove_nodes(cluster: Cluster, node_names: Iterable[str]) -> None:
    """Delete the nodes; their pods are deleted by the pod garbage collector."""
    _for_each(lambda name: cluster.api.call("DELETE", f"/api/v1/nodes/{name}"), list(node_names))


def reboot_node(cluster: Cluster, name: str) -> str:
    """Reboot the node, and return its new boot ID."""
    boot_id = str(uuid.uuid4())
    rebooted = {
        # The file that kured watches is in memory.
        "metadata": {"annotations": {names.SENTINEL: None}},
        "status": {"nodeInfo": {"bootID": boot_id}},
    }
    cluster.api.call("PATCH", f"/api/v1/nodes/{name}/status", rebooted)
    return boot_id


def restart_kubelet(cluster: Cluster, name: str) -> None:
    """Restart the kubelet of a simulated node: pods go on, and device plugins register again."""
    _count_up(cluster, f"/api/v1/nodes/{name}", names.RESTART_KUBELET)


def signal_plugin(cluster: Cluster, pod: str) -> None:
    """Send SIGHUP to a simulated device plugin: it registers again, without a restart."""
    _count_up(cluster, f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/pods/{pod}", names.SIGNAL)


def list_nodes(cluster: Cluster) -> list[dict[str, Any]]:
    """List all nodes of the cluster."""
    nodes: list[dict[str, Any]] = cluster.api.call("GET", "/api/v1/nodes")["items"]
    return nodes


def is_open(node: Mapping[str, Any]) -> bool:
    """Tell whether ``node`` is Ready and the taint of a new node is gone."""
    conditions = node.get("status", {}).get("conditions") or []
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    taints = node.get("spec", {}).get("taints") or []
    return ready and all(taint["key"] != "node.kubernetes.io/not-ready" for taint in taints)


def _count_up(cluster: Cluster, path: str, key: str) -> None:
    """Add one to an annotation by which the simulator counts requests."""
    annotations = cluster.api.call("GET", path)["metadata"].get("annotations") or {}
    count = int(annotations.get(key, "0")) + 1
    cluster.api.call("PATCH", path, {"metadata": {"annotations": {key: str(count)}}})


def _for_each(action: Any, items: list[Any]) -> None:
    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        list(pool.map(action, items))
