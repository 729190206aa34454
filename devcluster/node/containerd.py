"""Configures containerd on a node, and imports images."""

import json
from pathlib import Path

from devcluster.node.namespaces import Namespaces

PAUSE_IMAGE = "localhost/pause:dev"
_CNI_PROGRAMS = "/usr/lib/cni"
_NETWORK = "10-node.conflist"


def build_configuration() -> str:
    """Build the configuration file, version 4 (containerd 2.4).

    Without CAP_SYS_RESOURCE a critical pod's OOM score can't be lowered, and runc would fail with
    "can't get final child's PID from pipe"; no AppArmor, since not every machine has it.
    """
    return f"""version = 4
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{PAUSE_IMAGE}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{_CNI_PROGRAMS}']
[plugins.'io.containerd.nri.v1.nri']
  disable = true
"""


def build_network(pod_subnet: str) -> str:
    """Build the CNI network: a bridge for the node's pods, with addresses of `pod_subnet`."""
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": pod_subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, portmap]})


def write_configuration(folder: Path, namespaces: Namespaces, pod_subnet: str) -> Path:
    """Write the files of containerd and of the CNI network; return the path of the former."""
    # /etc of the node is an overlay, which is written only from within.
    target = f"/etc/cni/net.d/{_NETWORK}"
    namespaces.run("tee", target, stdin=build_network(pod_subnet))
    path = folder / "containerd.toml"
    path.write_text(build_configuration())
    return path


def import_image(namespaces: Namespaces, ctr: Path, archive: Path) -> None:
    """Give the node's kubelet the images of an archive in Docker's or OCI's format."""
    namespaces.run(str(ctr), "--namespace=k8s.io", "images", "import", str(archive))
