"""Installs the operator by `helm install` on real nodes, with its image."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.cluster import Report
from devcluster.images import build_operator_image, save_image
from devcluster.installation import NAMESPACE
from devcluster.locks import exclusive
from devcluster.node.cluster import NodeCluster
from devcluster.release import Release
from devcluster.startup import PROJECT

REPOSITORY = "localhost/gpushare-operator"
DEV = "dev"
"""Tag of the image of this checkout."""


def provide_image(
    cluster: NodeCluster, *, tag: str = DEV, source: Path = PROJECT, report: Report = print
) -> None:
    """Build the image of a checkout and give it to every node of the cluster."""
    image = f"{REPOSITORY}:{tag}"
    # One build at a time: the next one finds all layers of this one.
    lock = Path(tempfile.gettempdir(), f"gpushare-image-{os.getuid()}.lock")
    with exclusive(lock, on_wait=lambda: report("another image is being built; waiting")):
        build_operator_image(image, source=source, report=report)
        archive = save_image(image, cluster.folder / f"operator-{tag}.tar")
    for node in cluster.nodes.values():
        node.import_image(archive)
    archive.unlink()


@dataclass
class NodeRelease(Release):
    """A release of the chart on a cluster of real nodes, which have the image of its `tag`."""

    tag: str = DEV

    def prepare(self) -> None:
        """Do nothing, since the nodes exist."""

    def bring_up_to_date(self) -> None:
        """Install the release, or restart its pods with the image that the nodes have now."""
        if not self.is_installed:
            self.install()
            return
        self.upgrade()
        for verb in ("restart", "status"):
            self.cluster.kubectl("rollout", verb, "deployment", f"--namespace={NAMESPACE}")

    def kill(self, pod: dict[str, Any]) -> None:
        """Send SIGKILL to the first process of a pod's container."""
        assert isinstance(self.cluster, NodeCluster)
        (status,) = pod["status"]["containerStatuses"]
        self.cluster.nodes[pod["spec"]["nodeName"]].kill_container(status["containerID"])

    def read_log(self, pod: str, *, previous: bool = False) -> str:
        """Read the log of a pod's container, or of its previous one."""
        options = ("--previous",) if previous else ()
        return self.cluster.kubectl("logs", pod, f"--namespace={NAMESPACE}", *options)

    def describe(self) -> str:
        """Describe the pods by `kubectl describe`."""
        return self.cluster.kubectl("describe", "pods", f"--namespace={NAMESPACE}")

    def _render_values(self) -> str:
        image: dict[str, Any] = {"repository": REPOSITORY, "tag": self.tag, "pullPolicy": "Never"}
        return yaml.safe_dump({"image": image, **self.values})
