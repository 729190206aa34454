"""What is read of device plugins and drivers that no edition brings."""

from typing import Any

import pytest

from gpushare.api.k8s.daemonset import HAMI_DAEMONSET as HAMI
from gpushare.api.k8s.daemonset import NVIDIA_DAEMONSET as NVIDIA
from gpushare.api.k8s.node import ResourceSlice, parse_node, parse_resource_slice
from gpushare.api.k8s.pod import parse_pod
from gpushare.api.pruned.cluster import Kind, keep_object


def _of_daemonset(name: str, container: str, **labels: str) -> dict[str, Any]:
    owner = {"kind": "DaemonSet", "name": name, "controller": True}
    folder = {"path": "/var/lib/kubelet/device-plugins"}
    volumes = [{"name": "device-plugin", "hostPath": folder}]
    spec = {"containers": [{"name": container}], "volumes": volumes}
    return {"metadata": {"ownerReferences": [owner], "labels": labels}, "spec": spec}


def without_folder(owned: dict[str, Any]) -> dict[str, Any]:
    return {**owned, "spec": {**owned["spec"], "volumes": [{"name": "tmp", "emptyDir": {}}]}}


CTR = "nvidia-device-plugin-ctr"
HAMIS = {"app.kubernetes.io/component": "hami-device-plugin"}


@pytest.mark.parametrize(
    ("namespace", "owned", "daemonset"),
    [
        ("gpu-operator", _of_daemonset("nvidia-device-plugin-daemonset", "main"), NVIDIA),
        ("nvidia", _of_daemonset("nvdp-nvidia-device-plugin", CTR), NVIDIA),
        ("kube-system", _of_daemonset("nvdp-nvidia-device-plugin", CTR), NVIDIA),
        ("kube-system", _of_daemonset("ack-nvidia-device-plugin", CTR), "ack-nvidia-device-plugin"),
        ("kube-system", _of_daemonset("migparted-device-plugin", CTR), "migparted-device-plugin"),
        ("hami", _of_daemonset("hami-device-plugin", "device-plugin"), HAMI),
        ("hami", _of_daemonset("vgpu", "device-plugin", **HAMIS), HAMI),
        ("kube-system", _of_daemonset("kube-proxy", "main"), "kube-proxy"),
        ("gpu-operator", _of_daemonset("ack-nvidia-device-plugin", "main"), None),
        ("gpu-operator", _of_daemonset("gpu-feature-discovery", "main"), None),
        ("apps", without_folder(_of_daemonset("hami-device-plugin", CTR)), None),
        ("apps", {"metadata": {"labels": HAMIS}, "spec": {"containers": [{"name": CTR}]}}, None),
    ],
    ids=[
        "the GPU Operator's", "the chart's", "the chart's beside ours", "ACK's whole-card plugin",
        "ACK's MIG plugin", "HAMi's", "HAMi's under another name", "any of the plugins' namespace",
        "one with a name of ours elsewhere", "no plugin", "a tenant's imitation",
        "a pod of no DaemonSet",
    ],
)  # fmt: skip
def test_the_plugins_of_other_stacks_are_known_in_any_namespace(
    namespace: str, owned: dict[str, Any], daemonset: str | None
) -> None:
    meta = {"name": "plugin-1", "namespace": namespace, "uid": "1", **owned["metadata"]}
    pod = parse_pod({"metadata": meta, "spec": owned["spec"]}, plugin_namespaces=("kube-system",))
    assert (pod.daemonset if pod is not None else None) == daemonset


def test_of_a_node_it_is_kept_what_nvidias_plugin_shares() -> None:
    allocatable = {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "8"}
    raw = {"metadata": {"name": "gpu-1", "uid": "1"}, "status": {"allocatable": allocatable}}
    node = parse_node(raw)
    assert node.allocatable == {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 8}
    kept = keep_object(Kind.NODES, raw)
    assert kept is not None
    assert parse_node(kept) == node


@pytest.mark.parametrize(
    ("more", "is_read"),
    [
        ({}, True),
        ({"driver": "compute-domain.nvidia.com"}, False),
        ({"nodeName": None, "allNodes": True}, False),
        ({"devices": []}, False),
    ],
    ids=["cards of a node", "no cards", "of no node", "empty"],
)
def test_only_slices_with_cards_of_a_node_are_read(more: dict[str, Any], is_read: bool) -> None:
    devices = [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}]
    spec = {"driver": "gpu.nvidia.com", "nodeName": "gpu-1", "devices": devices, **more}
    raw = {"metadata": {"name": "gpu-1-abc", "uid": "1"}, "spec": spec}
    found = ResourceSlice("gpu-1-abc", "gpu-1") if is_read else None
    assert parse_resource_slice(raw) == found
    assert (keep_object(Kind.RESOURCESLICES, raw) is not None) is is_read
