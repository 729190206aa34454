"""Identifies DaemonSets of device plugins, and of NVIDIA's driver, by standard names.

DaemonSets of the plugins' namespace may be renamed by the installation's settings; those of NVIDIA
and HAMi are found in any namespace and under any name.

Decisions use only standard names, which are those of ACK's charts. Names of the cluster are
translated only where pods and DaemonSets are read.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from gpushare import names
from gpushare.api.k8s.node_selection import ANYWHERE, NodeSelection, read_node_selection
from gpushare.api.k8s.pod_shape import Container, Spec

NONE_RENAMED: Mapping[str, str] = MappingProxyType({})
"""Standard names of a cluster that has renamed no DaemonSet."""
FORMER = "former "
"""Prefix for a DaemonSet whose standard name was given to another one; no valid name has it."""
NVIDIA_DAEMONSET = "nvidia-device-plugin-daemonset"
"""Name in NVIDIA's manifest and its GPU Operator."""
GFD_DAEMONSET = "gpu-feature-discovery"
NVIDIA_MPS_DAEMONSET = "nvidia-device-plugin-mps-control-daemon"
NVIDIA_DAEMONSETS = frozenset({NVIDIA_DAEMONSET, GFD_DAEMONSET, NVIDIA_MPS_DAEMONSET})
NVIDIA_CONTAINERS = {
    "nvidia-device-plugin-ctr": NVIDIA_DAEMONSET,
    "gpu-feature-discovery-ctr": GFD_DAEMONSET,
    "gpu-feature-discovery": GFD_DAEMONSET,
    "mps-control-daemon-ctr": NVIDIA_MPS_DAEMONSET,
}
"""Standard names by containers of NVIDIA's chart and of the GPU Operator. The chart's DaemonSets
have the release's name, and all the same pod labels (NVIDIA/k8s-device-plugin, issue 982)."""
CONFIGS_FOLDER = "/available-configs"
"""Mount path of the ConfigMap in config-manager, in the chart and the GPU Operator."""
GPUSHARE_DAEMONSET = "gpushare-device-plugin-ds"
UNNAMED = "another "
"""Prefix of the standard name of gpushare's plugin, for a pod without a known DaemonSet."""
UNKNOWN_PLUGIN = "unknown device plugin"
"""Name for a pod that may register any resource with the kubelet; no valid DaemonSet name."""
_KUBELETS_FOLDER = "/var/lib/kubelet/device-plugins"
_OTHER_DEVICES = ("sriov", "sr-iov", "rdma", "fuse", "kvm", "fpga", "qat", "sgx")
"""Words in the names of plugins for other devices than GPUs."""
HAMI_DAEMONSET = "hami-device-plugin"
"""Name in HAMi's documentation, and the component label of its pods under any name."""
DRIVER_DAEMONSET = "nvidia-driver-daemonset"
"""Name in the GPU Operator, except for NVIDIADrivers. Its pod is Ready once the driver is loaded
(NVIDIA/gpu-operator, assets/state-driver)."""
_DRIVER_LABELS = frozenset(
    {
        # The GPU Operator's pods: older versions have only the first, an NVIDIADriver the second.
        ("app", DRIVER_DAEMONSET),
        (names.LABEL_COMPONENT, "nvidia-driver"),
        # On GKE, where users install it (GoogleCloudPlatform/container-engine-accelerators).
        ("k8s-app", "nvidia-driver-installer"),
    }
)
MIG_DAEMONSET = "migparted-device-plugin"
"""ACK's plugin for MIG devices, which serves none of `names.GPU_RESOURCES`."""
_ACKS = names.STANDARD_DAEMONSETS | {MIG_DAEMONSET}
_OTHERS = NVIDIA_DAEMONSETS | {HAMI_DAEMONSET}


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet, with the fields that show which plugin it runs."""

    name: str
    """Name in the cluster."""
    images: frozenset[str] = frozenset()
    """Names of the images, without registry, tag and digest."""
    selection: NodeSelection = ANYWHERE
    """Nodes of the pods, taints aside."""
    is_critical: bool = False
    """Whether the pods have a system priority, so that node pressure evicts none ("Pod Priority
    and Preemption" in the Kubernetes documentation)."""
    standard: str = ""
    """Standard name by the containers, if any."""
    config_map: str = ""
    """ConfigMap of the config-manager, if the DaemonSet has one."""


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
    paths: Collection[str],
    *,
    is_plugins: bool,
) -> str:
    """Find the standard name of the DaemonSet that owns a pod; empty for any other DaemonSet.

    In the device plugins' namespace (`is_plugins`) a known `name` counts. Elsewhere anybody may
    imitate a plugin's name and labels, but not its mount of the kubelet's folder, nor a driver's
    mount of the host, among `paths`: the Pod Security Standard `baseline` forbids them.
    """
    if is_plugins and (name in _ACKS or name.startswith(FORMER)):
        return name
    if paths and not _DRIVER_LABELS.isdisjoint(labels.items()):
        return DRIVER_DAEMONSET
    if not (is_plugins or any(map(_is_plugins_folder, paths))):
        return ""
    kinds = {NVIDIA_CONTAINERS.get(each.name or "", "") for each in containers}
    if name == NVIDIA_DAEMONSET or NVIDIA_DAEMONSET in kinds:
        return NVIDIA_DAEMONSET
    if HAMI_DAEMONSET in (name, labels.get(names.LABEL_COMPONENT)):
        return HAMI_DAEMONSET
    return (max(kinds, default="") or name) if is_plugins else ""


def identify_plugin_by_folder(
    known: str, owner: str, containers: Iterable[Mapping[str, Any]], paths: Iterable[str]
) -> str:
    """Identify the device plugin that a pod runs without a known DaemonSet; empty for none.

    `known` is the standard name of the pod's DaemonSet, if any, `owner` the name of its owner. A
    plugin needs the kubelet's folder among `paths`, the mounted paths of the host. gpushare's
    plugin is identified by its image; another is `UNKNOWN_PLUGIN`, unless its names show that it
    serves other devices.
    """
    if known in _ACKS or known in _OTHERS or known.startswith(FORMER):
        return known
    containers = tuple(containers)
    folders = [path.rstrip("/") for path in paths]
    mounts = any(map(_is_plugins_folder, folders))
    above = (folder for folder in folders if folder and _KUBELETS_FOLDER.startswith(f"{folder}/"))
    if not (mounts or any(above)):
        return known
    images = [shorten_image(each.get("image") or "") for each in containers]
    if any("gpushare" in image and "plugin" in image for image in images):
        return f"{UNNAMED}{GPUSHARE_DAEMONSET}"
    words = " ".join((owner, *images, *(each.get("name") or "" for each in containers)))
    is_other = any(word in words for word in _OTHER_DEVICES)
    return UNKNOWN_PLUGIN if mounts and not is_other else known


def _is_plugins_folder(path: str) -> bool:
    """Tell whether a folder of the host is that of device plugins' sockets."""
    return path.rstrip("/").endswith("/device-plugins")


def list_standard_names(given: Mapping[str, str]) -> Mapping[str, str]:
    """Map the cluster's DaemonSet names to standard names; `given` maps the other way.

    A DaemonSet whose standard name was given to another is `FORMER`: it may still run that plugin,
    but the settings do not allow a restart of it.
    """
    former = {name: f"{FORMER}{name}" for name in given}
    return {**former, **{actual: name for name, actual in given.items()}}
