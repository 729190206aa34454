"""Installs NVIDIA's stack as its chart does: plugin, GPU feature discovery, MPS daemon."""

from pathlib import Path
from typing import Any, Final

import yaml

from devcluster import names
from devcluster.cluster import Cluster
from devcluster.waiting import wait_until

NVIDIA_CHART: Final = "nvdp-nvidia-device-plugin"  # the plugin's DaemonSet
DISCOVERY: Final = f"{NVIDIA_CHART}-gpu-feature-discovery"
MPS_DAEMONS: Final = f"{NVIDIA_CHART}-mps-control-daemon"
CONFIG_MAP: Final = f"{NVIDIA_CHART}-configs"

_MANIFEST = Path(__file__).resolve().parent / "editions" / "nvidia.yaml"
_DEFAULT_KEY = f"{names.DEFAULT_CONFIG}, value: "
_FOLDERS = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": f"/api/v1/namespaces/{names.NVIDIA_NAMESPACE}/configmaps",
    "DaemonSet": f"/apis/apps/v1/namespaces/{names.NVIDIA_NAMESPACE}/daemonsets",
}
_PODS = f"/api/v1/namespaces/{names.NVIDIA_NAMESPACE}/pods"
_GONE_SECONDS = 180


def load_nvidia(default_key: str = "") -> list[dict[str, Any]]:
    """Load the manifests in their order, with `default_key` as the chart's `config.default`."""
    given = f'{_DEFAULT_KEY}"{default_key}"'
    return list(yaml.safe_load_all(_MANIFEST.read_text().replace(f'{_DEFAULT_KEY}""', given)))


def install_nvidia(cluster: Cluster, default_key: str = "") -> None:
    """Create or update the chart's objects.

    Pods run on nodes with the label ``nvidia.com/gpu.present: "true"``.
    """
    for manifest in load_nvidia(default_key):
        folder = _FOLDERS[manifest["kind"]]
        path = f"{folder}/{manifest['metadata']['name']}"
        if not cluster.api.exists(path):
            cluster.api.call("POST", folder, manifest)
        elif manifest["kind"] != "Namespace":
            cluster.api.call("PUT", path, manifest)


def remove_nvidia(cluster: Cluster) -> None:
    """Delete the stack and wait until its pods are gone; the namespace and node labels stay."""
    for manifest in load_nvidia():
        path = f"{_FOLDERS[manifest['kind']]}/{manifest['metadata']['name']}"
        if manifest["kind"] != "Namespace" and cluster.api.exists(path):
            cluster.api.call("DELETE", path)
    wait_until(
        lambda: not cluster.api.call("GET", _PODS)["items"],
        expectation="the pods of NVIDIA's stack are gone",
        timeout_seconds=_GONE_SECONDS,
    )
