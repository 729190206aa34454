"""What is read of a node's machine and of its driver, also from a snapshot."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gpushare.api.k8s.node import parse_node
from gpushare.api.k8s.pod import Pod, parse_pod
from gpushare.api.k8s.taint import Taint
from gpushare.api.pruned.cluster import Kind, keep_object

READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
VIRTUAL = {"key": "virtual-kubelet.io/provider", "value": "alibabacloud", "effect": "NoSchedule"}


def test_of_a_node_its_system_its_taints_and_its_gpu_resources_are_read() -> None:
    raw: dict[str, Any] = {
        "metadata": {"name": "n", "uid": "1", "labels": {"type": "virtual-kubelet"}},
        "spec": {"taints": [VIRTUAL]},
        "status": {
            "capacity": {"cpu": "4", "nvidia.com/gpu": "0", "aliyun.com/gpu-mem": "15"},
            "conditions": [{"type": "DiskPressure", "status": "False"}, READY],
            "nodeInfo": {"operatingSystem": "windows"},
        },
    }
    node = parse_node(raw)
    assert node.operating_system == "windows"
    assert node.taints == (Taint(VIRTUAL["key"], value="alibabacloud"),)
    assert node.capacity == {"nvidia.com/gpu": 0, "aliyun.com/gpu-mem": 15}
    assert node.ready_since == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    kept = keep_object(Kind.NODES, raw)
    assert kept is not None
    assert parse_node(kept) == node


def test_a_node_that_is_not_ready_has_been_ready_since_never() -> None:
    status = {"conditions": [{**READY, "status": "Unknown"}]}
    node = parse_node({"metadata": {"name": "n", "uid": "1"}, "status": status})
    assert (node.ready, node.ready_since) == (False, None)


def _parse(labels: dict[str, str], *volumes: dict[str, Any], kind: str = "DaemonSet") -> Pod | None:
    owner = {"kind": kind, "name": "d", "uid": "2", "controller": True}
    raw = {
        "metadata": {
            "name": "d-1", "namespace": "gpu-operator", "uid": "1", "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "main"}], "volumes": list(volumes)},
    }  # fmt: skip
    pod, kept = parse_pod(raw, plugin_namespaces=()), keep_object(Kind.PODS, raw)
    assert (kept and parse_pod(kept, plugin_namespaces=())) == pod
    return pod


RUN = {"name": "run-nvidia", "hostPath": {"path": "/run/nvidia"}}


@pytest.mark.parametrize(
    "labels",
    [
        {"app": "nvidia-driver-daemonset"},
        {"app": "nvidia-gpu-driver-x", "app.kubernetes.io/component": "nvidia-driver"},
        {"name": "nvidia-driver-installer", "k8s-app": "nvidia-driver-installer"},
    ],
    ids=["GPU Operator", "NVIDIADriver", "GKE"],
)
def test_what_installs_the_driver_is_known_by_its_labels(labels: dict[str, str]) -> None:
    pod = _parse(labels, RUN)
    assert pod is not None
    assert (pod.daemonset, pod.ready) == ("nvidia-driver-daemonset", False)


def test_who_may_not_mount_a_folder_of_the_node_imitates_none() -> None:
    labels = {"app": "nvidia-driver-daemonset"}
    assert _parse(labels, {"name": "tmp", "emptyDir": {}}) is None
    assert _parse(labels, RUN, kind="ReplicaSet") is None
