"""Runs the operator for the scenes: one process, or the chart installed by Helm."""

import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Protocol

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.installation import (
    TEARDOWN_IMAGE,
    TEARDOWN_NAMESPACE,
    Installation,
    OperatorProcess,
)
from devcluster.processnode.addresses import reach
from devcluster.release import COMPONENTS, Release
from devcluster.startup import tail
from devcluster.waiting import wait_until

# The operator's own default is 2 s, for bindings that are under way on a big cluster.
_SETTINGS = {"GPUSHARE_RECHECK_SECONDS": "0.5", "GPUSHARE_ALLOW_EVICTION": "true"}
_REPOSITORY, _, _TAG = TEARDOWN_IMAGE.rpartition(":")
_TEARDOWN_JOBS = {
    "enabled": True,
    "namespace": TEARDOWN_NAMESPACE,
    "image": {"repository": _REPOSITORY, "tag": _TAG},
}
_VALUES = {"eviction": {"enabled": True}, "teardown": {"jobs": _TEARDOWN_JOBS}}
_TIMEOUT_SECONDS = 180
# A proxy that the environment names is of no use for 127.0.0.1.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Operator(Protocol):
    """An installation of the operator, for steps."""

    @property
    def alive(self) -> bool:
        """Tell whether the operator runs; if not, no step can succeed."""

    def start(self) -> None:
        """Install the operator; return when it is ready."""

    def read_metrics(self) -> list[str]:
        """Read /metrics of each process."""

    def log(self) -> str:
        """Return the end of the log."""


class OneProcess:
    """`gpushare run` beside the cluster, which starts fast and has short settings."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._process: OperatorProcess | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Start the process. Raises :class:`ClusterError` with its log if it does not get ready."""
        policy = str(serves_policies(self._cluster)).lower()
        installation = Installation(
            self._cluster,
            values={"eviction.enabled": "true", "admissionPolicy.enabled": policy},
            teardown_jobs=True,
        )
        installation.apply()
        env = {**_SETTINGS, "GPUSHARE_ADMISSION_TABLE": policy}
        self._process = installation.start("run", identity="operator", env=env)
        wait_until(
            self._is_ready,
            expectation="the operator is ready",
            timeout_seconds=_TIMEOUT_SECONDS,
            advice=self.log,
        )

    def read_metrics(self) -> list[str]:
        return [fetch(f"{self._url}/metrics")]

    def log(self) -> str:
        return tail(self._process.log) if self._process else ""

    @property
    def _url(self) -> str:
        assert self._process is not None, "the operator was not started"
        return f"http://127.0.0.1:{self._process.metrics_port}"

    def _is_ready(self) -> bool:
        if not self.alive:
            raise ClusterError(f"The operator ended. The end of its log:\n{self.log()}")
        try:
            return bool(fetch(f"{self._url}/readyz"))
        except (urllib.error.URLError, ConnectionError):
            return False


class HelmRelease:
    """`helm install`: two controllers and two webhooks as pods, with the chart's defaults."""

    values: Mapping[str, Any] = _VALUES

    def __init__(self, cluster: Cluster) -> None:
        self._release = Release(cluster, self.values)

    @property
    def alive(self) -> bool:
        # A container that ends is started again.
        return True

    def start(self) -> None:
        """Install the chart. Raises :class:`ClusterError` with logs if pods don't get ready."""
        self._release.install()

    def read_metrics(self) -> list[str]:
        pods = [pod for component in COMPONENTS for pod in self._release.pods(component)]
        port = self._release.metrics_port
        return [fetch(f"http://{reach(pod['status']['podIP'])}:{port}/metrics") for pod in pods]

    def log(self) -> str:
        return self._release.describe()


class PolicyAlone(HelmRelease):
    """`helm install` with `webhook.enabled: false`: the API server itself chooses pools."""

    values: Mapping[str, Any] = {**_VALUES, "webhook": {"enabled": False}}


def serves_policies(cluster: Cluster) -> bool:
    """Tell whether the API server serves MutatingAdmissionPolicies (Kubernetes 1.36)."""
    return cluster.api.exists(
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies?limit=1"
    )


def fetch(url: str) -> str:
    """Return the answer of an address of this machine."""
    with _direct.open(url, timeout=_TIMEOUT_SECONDS) as answer:
        body: bytes = answer.read()
    return body.decode()
