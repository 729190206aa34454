"""NVIDIA's device plugin and its config-manager on real nodes, over a stand-in for the driver."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from devcluster import names
from devcluster.cluster import Report
from devcluster.errors import ToolchainError
from devcluster.images import build_root_image, save_image
from devcluster.node.cluster import NodeCluster
from devcluster.node.namespaces import run_command
from devcluster.nvidia import NVIDIA_CHART, load_nvidia
from devcluster.toolchain import NVIDIA_PLUGIN, ensure_binaries

IMAGE = "localhost/nvidia-device-plugin:dev"
MPS_ROOT = "/run/nvidia/mps"
"""Folder of each node that the MPS daemon and its clients share."""
_CONFIG_FILE = "/config/config.yaml"


def import_nvidia(cluster: NodeCluster, *, report: Report = print) -> None:
    """Build the programs and the stand-ins and give their image to the nodes."""
    with tempfile.TemporaryDirectory() as root:
        lay_out_root(Path(root), report=report)
        build_root_image(IMAGE, Path(root))
    archive = save_image(IMAGE, cluster.logs / "nvidia-device-plugin.tar")
    for node in cluster.nodes.values():
        node.import_image(archive)


def lay_out_root(root: Path, *, report: Report = print) -> None:
    """Lay out an image's root: the programs, what they are linked with, and the stand-ins."""
    if not shutil.which("gcc"):
        raise ToolchainError(
            "gcc is missing: run `apt-get install --no-install-recommends gcc libc6-dev`."
        )
    folder = ensure_binaries(os.environ, NVIDIA_PLUGIN, report=report)
    programs = [folder / name for name in NVIDIA_PLUGIN.binaries]
    (root / "bin").mkdir()
    for program in programs:
        shutil.copy(program, root / "bin")
    libraries = {path for program in programs for path in _find_libraries(program)}
    for path in libraries:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"/{path}", root / path)
    (libc,) = (path for path in libraries if Path(path).name == "libc.so.6")
    nvml = root / Path(libc).with_name("libnvidia-ml.so.1")
    source = NVIDIA_PLUGIN.folder
    run_command(["gcc", "-shared", "-fPIC", "-o", str(nvml), str(source / "nvml.c")])
    run_command(["gcc", "-o", str(root / "bin/nvidia-cuda-mps-control"), str(source / "mps.c")])


def install_plugin(cluster: NodeCluster) -> None:
    """Install the chart's objects, of its DaemonSets only the plugin's.

    The plugin runs on nodes with the label ``nvidia.com/gpu.present: "true"``.
    """
    namespace, configs, plugin, *_ = load_nvidia()
    manifests = [namespace, configs, *_build_account(), _let_run(plugin)]
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(manifests))


def remove_plugin(cluster: NodeCluster) -> None:
    """Delete the plugin with its namespace, and wait until its pods are gone."""
    rights = "clusterroles,clusterrolebindings"
    cluster.kubectl("delete", rights, NVIDIA_CHART, "--ignore-not-found")
    cluster.kubectl("delete", "namespace", names.NVIDIA_NAMESPACE, "--ignore-not-found")


def _find_libraries(program: Path) -> Iterator[str]:
    """Find the shared libraries that a program is linked with, and their loader."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    yield from re.findall(r"/(\S+) \(0x", listed.stdout)


def _build_account() -> list[dict[str, Any]]:
    """Build the plugin's ServiceAccount with config-manager's rights, as in the chart."""
    subject = {"name": NVIDIA_CHART, "namespace": names.NVIDIA_NAMESPACE}
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
    group = "rbac.authorization.k8s.io"
    metadata = {"name": NVIDIA_CHART}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": subject},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": metadata,
            "rules": [rule],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": NVIDIA_CHART},
            "subjects": [{"kind": "ServiceAccount", **subject}],
        },
    ]


def _let_run(daemonset: dict[str, Any]) -> dict[str, Any]:
    """Add the parts of the chart's pod that the simulator does not need."""
    template = daemonset["spec"]["template"]
    del template["metadata"]["annotations"]
    spec = template["spec"]
    # config-manager looks for the plugin's process.
    spec |= {"serviceAccountName": NVIDIA_CHART, "shareProcessNamespace": True}
    node_name = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    (init,), (sidecar, plugin) = spec["initContainers"], spec["containers"]
    for manager, signals in ((init, "false"), (sidecar, "true")):
        manager["env"] += [
            {"name": "NODE_NAME", "valueFrom": node_name},
            {"name": "CONFIG_FILE_DST", "value": _CONFIG_FILE},
            {"name": "SEND_SIGNAL", "value": signals},
        ]
    environment = {
        "CONFIG_FILE": _CONFIG_FILE,
        "DP_DISABLE_HEALTHCHECKS": "all",
        "MPS_ROOT": MPS_ROOT,
    }
    plugin["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    plugin["volumeMounts"].append({"name": "mps-root", "mountPath": "/mps"})
    for container in (init, sidecar, plugin):
        container |= {"image": IMAGE, "imagePullPolicy": "Never"}
        container["volumeMounts"].append({"name": "config", "mountPath": "/config"})
    spec["volumes"] += [
        {"name": "config", "emptyDir": {}},
        {"name": "mps-root", "hostPath": {"path": MPS_ROOT, "type": "DirectoryOrCreate"}},
    ]
    return daemonset
