"""DaemonSets of device plugins: those of the plugins' namespace, whose standard names are given to
renamed ones, and those of NVIDIA and HAMi, in any namespace and under any name. Besides, those
that install NVIDIA's driver.

Everything that is decided knows the DaemonSets by their standard names, those of ACK's charts. What
a cluster calls them is translated where pods and DaemonSets are read, and nowhere else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from gpushare import names
from gpushare.api.k8s.node_selection import ANYWHERE, NodeSelection, read_node_selection
from gpushare.api.k8s.pod_shape import Container, Spec

NONE_RENAMED: Mapping[str, str] = MappingProxyType({})
"""Of a cluster that has renamed none."""
FORMER = "former "
"""Before the standard name of a DaemonSet that has lost it; no DaemonSet is called like that."""
NVIDIA_DAEMONSET = "nvidia-device-plugin-daemonset"
"""As NVIDIA's manifest and its GPU Operator name it."""
GFD_DAEMONSET = "gpu-feature-discovery"
NVIDIA_MPS_DAEMONSET = "nvidia-device-plugin-mps-control-daemon"
NVIDIA_DAEMONSETS = frozenset({NVIDIA_DAEMONSET, GFD_DAEMONSET, NVIDIA_MPS_DAEMONSET})
NVIDIA_CONTAINERS = {
    "nvidia-device-plugin-ctr": NVIDIA_DAEMONSET,
    "gpu-feature-discovery-ctr": GFD_DAEMONSET,
    "gpu-feature-discovery": GFD_DAEMONSET,
    "mps-control-daemon-ctr": NVIDIA_MPS_DAEMONSET,
}
"""Of NVIDIA's chart, but for one of the GPU Operator. The chart's DaemonSets have the release's
name, and all the same pod labels (NVIDIA/k8s-device-plugin, issue 982)."""
CONFIGS_FOLDER = "/available-configs"
"""Where config-manager finds the entries of the ConfigMap, by chart and by GPU Operator."""
HAMI_DAEMONSET = "hami-device-plugin"
"""The name in HAMi's documentation, and the component of its pods under any name."""
DRIVER_DAEMONSET = "nvidia-driver-daemonset"
"""As the GPU Operator names it; that of an NVIDIADriver has another name. Its pod is Ready once the
driver is loaded (NVIDIA/gpu-operator, assets/state-driver)."""
_DRIVER_LABELS = frozenset(
    {
        # The GPU Operator's pods: older versions have the first alone, an NVIDIADriver the second.
        ("app", DRIVER_DAEMONSET),
        (names.LABEL_COMPONENT, "nvidia-driver"),
        # On GKE, where users install it (GoogleCloudPlatform/container-engine-accelerators).
        ("k8s-app", "nvidia-driver-installer"),
    }
)
MIG_DAEMONSET = "migparted-device-plugin"
"""ACK's for MIG devices: of the resources that are known here it serves none."""
_ACKS = names.STANDARD_DAEMONSETS | {MIG_DAEMONSET}


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet, as far as it shows which plugin it runs."""

    name: str
    """What the cluster calls it."""
    images: frozenset[str] = frozenset()
    """The last part of each, without tag and digest."""
    selection: NodeSelection = ANYWHERE
    """On which nodes its pods run, taints aside."""
    is_critical: bool = False
    """Its pods have a system priority: no node that runs short evicts them ("Pod Priority and
    Preemption" in the Kubernetes documentation)."""
    standard: str = ""
    """Standard name, where its containers tell it."""
    config_map: str = ""
    """The ConfigMap from which its config-manager, if it has one, takes the configuration."""


def parse_daemonset(raw: Mapping[str, Any]) -> DaemonSet:
    """Parse a DaemonSet from the API server's JSON."""
    spec = ((raw.get("spec") or {}).get("template") or {}).get("spec") or {}
    selecting = {key: spec.get(key) for key in ("nodeSelector", "affinity")}
    containers = spec.get("containers") or ()
    images = (each.get("image") or "" for each in containers)
    kinds = {NVIDIA_CONTAINERS.get(each.get("name", ""), "") for each in containers}
    mounts = {
        mount.get("name")
        for each in containers
        for mount in each.get("volumeMounts") or ()
        if mount.get("mountPath") == CONFIGS_FOLDER
    }
    maps = (v for v in spec.get("volumes") or () if v.get("name") in mounts)
    return DaemonSet(
        raw["metadata"]["name"],
        frozenset(map(shorten_image, images)),
        read_node_selection(msgspec.convert(selecting, Spec)),
        (spec.get("priorityClassName") or "").startswith("system-"),
        max(kinds, default=""),
        next(((each.get("configMap") or {}).get("name", "") for each in maps), ""),
    )


def shorten_image(image: str) -> str:
    """Return an image's name without registry, tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def find_standard_name(
    name: str,
    labels: Mapping[str, str],
    containers: Iterable[Container],
    volumes: Iterable[Mapping[str, Any]],
    *,
    is_plugins: bool,
) -> str:
    """Find the standard name of the DaemonSet that owns a pod; empty for one of no interest.

    One that `is_plugins`, of the device plugins' namespace, keeps the `name` that it is known by.
    Elsewhere anybody may imitate a plugin but for its mount of the kubelet's folder, and what
    installs a driver but for a folder of the node, which the Pod Security Standard `baseline`
    forbids.
    """
    if is_plugins and (name in _ACKS or name.startswith(FORMER)):
        return name
    if not _DRIVER_LABELS.isdisjoint(labels.items()) and any("hostPath" in v for v in volumes):
        return DRIVER_DAEMONSET
    if not (is_plugins or any(map(_is_plugins_folder, volumes))):
        return ""
    kinds = {NVIDIA_CONTAINERS.get(each.name or "", "") for each in containers}
    if name == NVIDIA_DAEMONSET or NVIDIA_DAEMONSET in kinds:
        return NVIDIA_DAEMONSET
    if HAMI_DAEMONSET in (name, labels.get(names.LABEL_COMPONENT)):
        return HAMI_DAEMONSET
    return (max(kinds, default="") or name) if is_plugins else ""


def _is_plugins_folder(volume: Mapping[str, Any]) -> bool:
    """Tell whether the volume holds the sockets of device plugins: without it none can register."""
    path = str((volume.get("hostPath") or {}).get("path", ""))
    return path.rstrip("/").endswith("/device-plugins")


def list_standard_names(given: Mapping[str, str]) -> Mapping[str, str]:
    """Map the cluster's DaemonSet names to standard names; `given` maps the other way.

    A DaemonSet whose standard name was given to another is `FORMER`: it may still run that plugin,
    and nobody said that this one may be restarted.
    """
    former = {name: f"{FORMER}{name}" for name in given}
    return {**former, **{actual: name for name, actual in given.items()}}
