"""The stage that the scenes share: a cluster, an operator, and the installed edition."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from demo.operators import Operator, serves_policies
from demo.sights import POOL_LABEL
from demo.view import View
from devcluster import names
from devcluster.cluster import Cluster, Report
from devcluster.editions import Edition, install_edition
from devcluster.errors import ClusterError, CommandError
from devcluster.installation import NAMESPACE
from devcluster.kubeconfig import read_own_kubeconfig
from devcluster.kubectlplugin import write_plugin
from devcluster.nodes import add_nodes, list_nodes, remove_nodes
from devcluster.prometheus_server import recorded_prometheus
from devcluster.recordings import RecordedSeries, build_recording
from devcluster.startup import PROJECT
from devcluster.toolchain import PROMETHEUS, find_binaries
from devcluster.waiting import wait_until

NAME = "demo"
KEPT_LOGS = PROJECT / "build" / "demo-logs"
_KUBELET_PERIOD_SECONDS = 0.5
"""Period of the kubelets' reports, 10 s in reality; shorter, since every scene waits for it."""

_CLEAR_SECONDS = 180
_RECORDED_SECONDS = 7200
_CLEAR_WORKLOADS = (
    "kubectl delete deployments,statefulsets,daemonsets,cronjobs,jobs,pods --all-namespaces "
    f"--field-selector=metadata.namespace!={names.SYSTEM_NAMESPACE},"
    f"metadata.namespace!={NAMESPACE} "
    f"--cascade=foreground --ignore-not-found --timeout={_CLEAR_SECONDS}s"
)
_MODE_LABELS = (names.SCHEDULE, names.CGPU, names.GPUSHARE)
_EVIDENCE = {
    "the pools": "kubectl get gsp -o custom-columns=NAME:.metadata.name,"
    "NODES:.status.nodes.matched,READY:.status.nodes.ready,WHY:.status.conditions[*].message",
    "the nodes": "kubectl get nodes -L "
    + ",".join((POOL_LABEL, names.SCHEDULE, names.CGPU, names.DISABLE_ISOLATION, names.GPUSHARE)),
    "the pods": "kubectl get pods -A -o custom-columns=NAME:.metadata.name,"
    "PHASE:.status.phase,NODE:.spec.nodeName",
}
_SYSTEM_PODS = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/pods"


class Stage:
    """A cluster with the operator running; :meth:`close` leaves nothing of it."""

    def __init__(self, folder: Path, build_operator: Callable[[Cluster], Operator]) -> None:
        self.cluster = Cluster(NAME, folder, kubelet_period_seconds=_KUBELET_PERIOD_SECONDS)
        self.operator = build_operator(self.cluster)
        self._prometheus = ExitStack()
        self._address = ""

    def open(self, report: Report) -> None:
        """Start the cluster and the operator. Raises :class:`ClusterError` if a cluster is up."""
        if self.cluster.is_running():
            raise ClusterError(
                f"A cluster runs in {self.cluster.folder} already, of `make cluster` or of an "
                "earlier `make demo KEEP=1`. End it with `make cluster-down`, then call again."
            )
        self.cluster.up(report=report)
        try:
            write_plugin(self.cluster.programs)
            report("installing the operator from its chart, and starting it")
            self.operator.start()
            self.view = View(self.cluster, self.operator)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the cluster, and with it the operator."""
        self._prometheus.close()
        self.cluster.down()

    def keep_logs(self) -> None:
        """Copy the logs of operator, simulator and control plane to `KEPT_LOGS`."""
        shutil.rmtree(KEPT_LOGS, ignore_errors=True)
        for folder in (self.cluster.logs, self.cluster.audit_log.parent):
            shutil.copytree(folder, KEPT_LOGS, dirs_exist_ok=True)

    def set(self, edition: Edition, nodes: Sequence[dict[str, Any]]) -> None:
        """Remove everything of the scene before, install an edition and add nodes."""
        if not self.operator.alive:
            raise ClusterError("The operator's process ended: no scene can be played.")
        self.run(_CLEAR_WORKLOADS)
        self.run(f"kubectl delete gsp --all --timeout={_CLEAR_SECONDS}s")
        self._remove_all_nodes()
        install_edition(self.cluster, edition)
        add_nodes(self.cluster, nodes)

    @property
    def has_prometheus(self) -> bool:
        """Whether a Prometheus is built."""
        return find_binaries(os.environ, PROMETHEUS) is not None

    @property
    def serves_policies(self) -> bool:
        """Whether the API server serves MutatingAdmissionPolicies."""
        return serves_policies(self.cluster)

    def record(self, series: Sequence[RecordedSeries]) -> None:
        """Start a Prometheus that has recorded these series for two hours; without any end it."""
        self._prometheus.close()
        self._address = ""
        if series:
            recording = build_recording(series, end=time.time(), seconds=_RECORDED_SECONDS)
            running = recorded_prometheus(self.cluster, recording)
            self._address = self._prometheus.enter_context(running).url

    def run(self, command: str, *, refused: bool = False) -> str:
        """Run a command in bash; return its output, warnings and errors included.

        Raises :class:`~devcluster.errors.CommandError` with its output if it fails, or with
        ``refused`` if it does not.
        """
        read_own_kubeconfig(self.cluster.kubeconfig)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            env={**self.cluster.environment, "PROMETHEUS": self._address},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if (done.returncode != 0) is not refused:
            expected = "should have been refused" if refused else "failed"
            raise CommandError(f"`{command}` {expected}: {done.stdout.strip()}")
        return done.stdout

    def evidence(self) -> Iterator[tuple[str, str]]:
        """Yield texts that help to understand a failure, with titles."""
        for title, command in _EVIDENCE.items():
            try:
                yield title, self.run(command)
            except CommandError as error:
                yield title, str(error)
        yield "the end of what the operator said", self.operator.log()

    def _remove_all_nodes(self) -> None:
        """Remove the nodes once they are empty: a pod on a missing node stays for a minute."""
        nodes = [
            node["metadata"]["name"]
            for node in list_nodes(self.cluster)
            if names.RUNS_PROCESSES not in node["metadata"]["labels"]
        ]
        for name in nodes:
            labels = dict.fromkeys(_MODE_LABELS)
            self.cluster.api.call(
                "PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}}
            )
        wait_until(
            lambda: not self.cluster.api.call("GET", _SYSTEM_PODS)["items"],
            expectation="the device plugins have left the nodes of the scene before",
            timeout_seconds=_CLEAR_SECONDS,
        )
        remove_nodes(self.cluster, nodes)
        self.cluster.restart_extender()
