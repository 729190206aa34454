"""What is read of device plugins and drivers that no edition brings."""

from typing import Any

import pytest

from gpushare.api.k8s.daemonset import HAMI_DAEMONSET as HAMI
from gpushare.api.k8s.daemonset import NVIDIA_DAEMONSET as NVIDIA
from gpushare.api.k8s.node import ResourceSlice, parse_node, parse_resource_slice
from gpushare.api.k8s.pod import allocates_cards, judge_claims, parse_pod
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
        ("kube-system", without_folder(_of_daemonset("kube-proxy", "main")), "kube-proxy"),
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


def _claims(*entries: dict[str, Any], made: tuple[Any, ...] = (), **more: Any) -> Any:
    spec = {"nodeName": "gpu-1", "containers": [], "resourceClaims": list(entries)}
    status = {"resourceClaimStatuses": list(made), **more}
    meta = {"name": "p", "namespace": "team", "uid": "1"}
    return {"metadata": meta, "spec": spec, "status": status}


OF_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}


@pytest.mark.parametrize(
    ("raw", "claims"),
    [
        (_claims({"name": "gpu", "resourceClaimName": "a"}), ("team/a",)),
        (_claims(OF_TEMPLATE, made=({"name": "gpu", "resourceClaimName": "p-gpu-x"},)),
         ("team/p-gpu-x",)),
        (_claims(OF_TEMPLATE), ("team/",)),
        (_claims(OF_TEMPLATE, made=({"name": "gpu"},)), None),
        (_claims(extendedResourceClaimStatus={"resourceClaimName": "p-ext"}), ("team/p-ext",)),
    ],
    ids=["by name", "of a template", "not made yet", "not needed", "of an extended resource"],
)  # fmt: skip
def test_the_resource_claims_of_a_pod_are_known_also_from_a_snapshot(
    raw: dict[str, Any], claims: tuple[str, ...] | None
) -> None:
    pod, kept = parse_pod(raw, plugin_namespaces=()), keep_object(Kind.PODS, raw)
    assert (pod.claims if pod is not None else None) == claims
    assert (kept and parse_pod(kept, plugin_namespaces=())) == pod


def _allocated(driver: str, **more: bool) -> dict[str, Any]:
    result = {"request": "r", "driver": driver, "pool": "gpu-1", "device": "gpu-0", **more}
    return {"allocation": {"devices": {"results": [result]}}}


CARDS = _allocated("gpu.nvidia.com")


@pytest.mark.parametrize(
    ("phase", "status", "holds"),
    [
        ("Running", CARDS, True),
        ("Pending", CARDS, True),
        ("Running", _allocated("gpu.nvidia.com", adminAccess=True), False),
        ("Running", _allocated("nic.example.com"), False),
        ("Running", {}, None),
        ("Pending", {}, False),
    ],
    ids=[
        "cards", "cards of a pod that starts", "for an administrator", "another device",
        "not allocated in our copy", "not allocated, so its pod can't start",
    ],
)  # fmt: skip
def test_a_pod_holds_cards_where_its_claim_was_given_some(
    phase: str, status: dict[str, Any], holds: bool | None
) -> None:
    raw = {"metadata": {"name": "a", "namespace": "team", "uid": "1"}, "status": status}
    kept = keep_object(Kind.RESOURCECLAIMS, raw)
    assert kept is not None
    told = allocates_cards(kept)
    assert told == allocates_cards(raw)
    pod = parse_pod(
        _claims({"name": "gpu", "resourceClaimName": "a"}, phase=phase), plugin_namespaces=()
    )
    assert pod is not None
    assert judge_claims(pod, {"team/a": told}).has_claimed_cards is holds
    assert judge_claims(pod, None).has_claimed_cards is None
