"""Provides pods on this machine with an image, the folder of a token, and a process."""

import subprocess
import sys
from pathlib import Path

from devcluster.client import Client
from devcluster.cluster import Cluster
from devcluster.installation import IMAGE
from devcluster.kubeconfig import read_own_kubeconfig, write_service_account
from devcluster.processnode.addresses import reach
from devcluster.processnode.pod import Container, Pod
from devcluster.startup import PROJECT

_IMAGES = "images"
_IMAGE_ENVIRONMENT = {
    # As the Dockerfile has them, where the program is installed.
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}


class Host:
    """This machine, as a node of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._admin = read_own_kubeconfig(cluster.kubeconfig)
        self._credentials: dict[str, dict[str, str]] = {}
        """Variables with the API server's address and the credentials, by the pod's UID."""

    @staticmethod
    def finds_no_image(image: str) -> bool:
        """Tell whether an image is not the operator's, whatever its registry, tag and digest."""
        return image.partition("@")[0].rpartition("/")[2].partition(":")[0] != IMAGE

    async def mount_token(self, client: Client, pod: Pod) -> float:
        """Write a new token of the pod's ServiceAccount; return its lifetime in seconds.

        The token is bound to the pod, as the kubelet's is.
        """
        account = f"/api/v1/namespaces/{pod.namespace}/serviceaccounts/{pod.account}"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        answer = await client.post(
            f"{account}/token",
            {"spec": {"expirationSeconds": pod.token_seconds, "boundObjectRef": bound}},
        )
        folder = self._cluster.logs.parent / f"serviceaccount-{pod.name}"
        token = answer["status"]["token"]
        self._credentials[pod.uid] = write_service_account(self._admin, folder, token=token)
        seconds: float = answer["spec"]["expirationSeconds"]
        return seconds

    def start(self, pod: Pod, container: Container, address: str) -> subprocess.Popen[bytes]:
        """Start the container's process; its output goes to `logs/POD.log`."""
        local = reach(address)
        env = {
            **_IMAGE_ENVIRONMENT,
            "PYTHONPATH": find_source(self._cluster, container.image),
            "HOSTNAME": pod.name,
            **self._credentials.get(pod.uid, {}),
            "GPUSHARE_WEBHOOK_HOST": local,
            "GPUSHARE_METRICS_HOST": local,
            # Last: nothing that the Pod says is overruled.
            **container.env,
        }
        command = [sys.executable, "-m", "gpushare", *container.args]
        return self._cluster.spawn(command, log=log_name(pod.name), env=env)


def load_image(cluster: Cluster, tag: str, source: str) -> None:
    """Make containers of this tag run the program under a PYTHONPATH."""
    images = cluster.folder / _IMAGES
    images.mkdir(exist_ok=True)
    (images / tag).write_text(source)


def find_source(cluster: Cluster, image: str) -> str:
    """Find the PYTHONPATH of an image's program."""
    loaded = cluster.folder / _IMAGES / image.rpartition(":")[2]
    return loaded.read_text() if loaded.is_file() else str(PROJECT / "operator")


def log_name(pod: str) -> str:
    """Return the name of a pod's log in the cluster's folder of logs."""
    return f"{Path(pod).name}.log"
