"""Installs the operator by `helm install`: Deployments whose pods are real processes.

As in a cluster, controllers create the pods, the scheduler binds them, and devcluster.processnode
starts them. :class:`~devcluster.installation.Installation` starts processes itself, which is faster
for other tests.
"""

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from devcluster import names
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError, CommandError
from devcluster.installation import IMAGE, NAMESPACE, RELEASE
from devcluster.nodes import add_nodes, build_process_node
from devcluster.processes import runs_module
from devcluster.processnode.host import log_name
from devcluster.startup import CHART, tail

Json = dict[str, Any]

COMPONENTS = ("controller", "webhook")
_NODES = ("system-1", "system-2")
_PLAYER = "devcluster.processnode"
_WAIT = ("--wait", "--timeout=5m")
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_OURS = "app.kubernetes.io%2Fname%3Dgpushare-operator"


@dataclass
class Release:
    """A release of the chart on a cluster, with the chart's own defaults.

    `values` are those of a values file; only the pods' nodes and ports are set here, the ports from
    the cluster's block, since other processes use the machine's.
    """

    cluster: Cluster
    values: Mapping[str, Any] = field(default_factory=dict)
    chart: Path = CHART

    @property
    def is_installed(self) -> bool:
        """Tell whether Helm has the release."""
        return RELEASE in self.cluster.helm("list", f"--namespace={NAMESPACE}", "--short").split()

    def prepare(self) -> None:
        """Add nodes for the pods and start their kubelet, unless they exist.

        Raises :class:`ClusterError` where the kubelet has ended: the pods' processes outlive it,
        and another one would start each of them a second time.
        """
        missing = [node for node in _NODES if not self._has_node(node)]
        add_nodes(self.cluster, map(build_process_node, missing))
        if runs_module(self.cluster.folder, _PLAYER):
            return
        if self._player_log.exists():
            raise ClusterError(
                f"cluster {self.cluster.name}: {_PLAYER}, which plays its nodes {_NODES}, has "
                "ended, and nobody watches their pods. Start the cluster anew. The end of its log:"
                f"\n{tail(self._player_log)}"
            )
        arguments = ["--name", self.cluster.name, "--folder", str(self.cluster.folder)]
        self.cluster.spawn(
            [sys.executable, "-m", _PLAYER, *arguments],
            log=self._player_log.name,
            env=self.cluster.environment,
        )

    def install(self) -> None:
        """Install the release, and return once every Deployment is available.

        Raises :class:`ClusterError` with the pods' logs if that does not happen in time.
        """
        self.prepare()
        self._helm("install", "--create-namespace", stdin=self._render_values())

    def upgrade(self, *options: str, **values: Any) -> None:
        """Change some values, by their top-level keys, and return once the rollout is done."""
        self.values = {**self.values, **values}
        self._helm("upgrade", *options, stdin=self._render_values())

    def uninstall(self) -> None:
        """Uninstall the release, with its hooks."""
        self.cluster.helm("uninstall", RELEASE, f"--namespace={NAMESPACE}", *_WAIT)

    def roll_back(self, revision: int) -> None:
        """Roll back to a revision, such as before an uninstallation that failed."""
        self.cluster.helm("rollback", RELEASE, str(revision), f"--namespace={NAMESPACE}", *_WAIT)

    def pods(self, component: str, *, leaving: bool = False) -> list[Json]:
        """List the pods of `controller` or `webhook` by name; deleted ones only with `leaving`."""
        selector = f"{_OURS},app.kubernetes.io%2Fcomponent%3D{component}"
        pods = self.cluster.api.call("GET", f"{_PODS}?labelSelector={selector}")["items"]
        chosen = [pod for pod in pods if leaving or "deletionTimestamp" not in pod["metadata"]]
        return sorted(chosen, key=lambda pod: str(pod["metadata"]["name"]))

    def kill(self, pod: Json) -> None:
        """Send SIGKILL to the process of a pod's container."""
        os.kill(find_pid(pod), signal.SIGKILL)

    @property
    def metrics_port(self) -> int:
        """Port of each pod for /metrics and probes."""
        return self.cluster.ports.spare[-1]

    def log(self, pod: str) -> Path:
        """Return the path of a pod's log, with all of its restarts."""
        return self.cluster.logs / log_name(pod)

    def describe(self) -> str:
        """Describe the pods, with the ends of their logs."""
        pods = self.cluster.kubectl("get", "pods", "-n", NAMESPACE, "-o", "wide")
        logs = [
            f"--- {pod['metadata']['name']}\n{tail(self.log(pod['metadata']['name']))}"
            for component in COMPONENTS
            for pod in self.pods(component)
        ]
        return "\n".join([pods, *logs, f"--- {_PLAYER}\n{tail(self._player_log)}"])

    @property
    def _player_log(self) -> Path:
        return self.cluster.logs / "processnode.log"

    def _has_node(self, name: str) -> bool:
        return self.cluster.api.exists(f"/api/v1/nodes/{name}")

    def _render_values(self) -> str:
        ports = self.cluster.ports
        own = {
            "nodeSelector": {names.RUNS_PROCESSES: "true"},
            "tolerations": [{"key": names.RUNS_PROCESSES, "operator": "Exists"}],
            "metricsPort": self.metrics_port,
        }
        image = {"repository": IMAGE, **self.values.get("image", {})}
        webhook = {"port": ports.webhook, **self.values.get("webhook", {})}
        return yaml.safe_dump({**own, **self.values, "image": image, "webhook": webhook})

    def _helm(self, command: str, *options: str, stdin: str) -> None:
        try:
            self.cluster.helm(
                command,
                RELEASE,
                str(self.chart),
                *(f"--namespace={NAMESPACE}", "--values=-", *_WAIT, *options),
                stdin=stdin,
            )
        except CommandError as error:
            raise ClusterError(f"{error}\n{self.describe()}") from error


def find_pid(pod: Json) -> int:
    """Find the process of a pod's container. Raises :class:`ClusterError` where none runs."""
    statuses: list[Json] = pod["status"].get("containerStatuses", [])
    container = statuses[0].get("containerID", "") if statuses else ""
    scheme, _, pid = container.partition("://")
    if scheme != "process":
        raise ClusterError(f"pod {pod['metadata']['name']} has no process: {pod['status']}")
    return int(pid)
