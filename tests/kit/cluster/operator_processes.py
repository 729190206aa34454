"""Starts, kills, stops and restarts the operator's processes in a test."""

import os
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field

from devcluster.cluster import Cluster
from devcluster.installation import NAMESPACE, Installation, OperatorProcess, Role
from devcluster.waiting import wait_until

QUICK: Mapping[str, str] = {
    "GPUSHARE_RECHECK_SECONDS": "0.3",
    "GPUSHARE_BACKOFF_SECONDS": "1",
    "GPUSHARE_RESOURCE_SETTLE_SECONDS": "2",
    "GPUSHARE_READY_TIMEOUT_SECONDS": "90",
    "GPUSHARE_LEASE_DURATION_SECONDS": "12",
    "GPUSHARE_LEASE_RENEW_SECONDS": "1",
    "GPUSHARE_DRAIN_SECONDS": "0",
}
"""Settings that keep tests short, without skipping a step."""
KUBELET_PERIOD_SECONDS = 0.2
"""Period of simulated kubelets in tests instead of 10 s, which must be shorter than the settle time
of all tests."""

SOURCE_VARIABLE = "GPUSHARE_SOURCE"
"""Variable with the folder of the operator's source to run instead of the project's (see
tools/mutations.py)."""
CONTROLLER_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpushare-controller"
_READY_SECONDS = 90
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Operators:
    """All processes of the operator on a cluster."""

    cluster: Cluster
    installation: Installation = field(init=False)
    _standard: OperatorProcess | None = None
    _started: int = 0

    def __post_init__(self) -> None:
        self.installation = Installation(self.cluster)

    def standard(self) -> OperatorProcess:
        """Start `gpushare run` with short settings, unless it runs; it is shared by tests."""
        if self._standard is None or not self._standard.alive:
            self._standard = None
            self.end()
            self._standard = self.start()
        return self._standard

    def start(
        self,
        role: Role = "run",
        *,
        identity: str | None = None,
        env: Mapping[str, str] | None = None,
        api_url: str | None = None,
        wait: bool = True,
    ) -> OperatorProcess:
        """Start a process for this test, after stopping the standard one. Returns once it is ready
        (or standing by), unless `wait` is False."""
        self._stop_standard()
        self._started += 1
        source = os.environ.get(SOURCE_VARIABLE)
        settings = {**QUICK, **({"PYTHONPATH": source} if source else {}), **(env or {})}
        process = self.installation.start(
            role, identity=identity or f"operator-{self._started}", env=settings, api_url=api_url
        )
        if wait:
            wait_ready(process)
        return process

    def restart(self, ended: OperatorProcess) -> OperatorProcess:
        """Start an ended process again, under its name; it may not be ready yet."""
        return self.installation.restart(ended)

    def end(self) -> None:
        """Kill the processes of a test; the standard one goes on."""
        if self._standard is not None and not self._standard.alive:
            self._standard = None
        for process in self.installation.processes:
            if process.alive and process is not self._standard:
                process.kill()
        if self._standard is None and self.cluster.api.exists(CONTROLLER_LEASE):
            # Of one that was killed: nobody should wait for it to expire.
            self.cluster.api.call("DELETE", CONTROLLER_LEASE)

    def end_all(self) -> None:
        self._stop_standard()
        self.end()

    def tail(self, lines: int = 25) -> str:
        """Return the end of the log of each process that was started last."""
        logs = {process.log: process for process in self.installation.processes[-2:]}
        return "\n".join(
            f"--- {log.name} ({'alive' if process.alive else 'ended'})\n"
            + "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
            for log, process in logs.items()
        )

    def _stop_standard(self) -> None:
        if self._standard is not None:
            self._standard.stop()
            self._standard = None


def wait_ready(process: OperatorProcess, *, poll_seconds: float = 0.1) -> None:
    """Wait until /readyz of the process answers ok."""

    def ready() -> bool:
        if not process.alive:
            raise AssertionError(f"the operator ended:\n{process.log.read_text()[-3000:]}")
        try:
            return "ok" in fetch(process, "/readyz")
        except OSError:
            return False

    wait_until(
        ready,
        expectation=f"{process.identity} is ready",
        timeout_seconds=_READY_SECONDS,
        advice=lambda: process.log.read_text()[-3000:],
        poll_seconds=poll_seconds,
    )


def fetch(process: OperatorProcess, path: str) -> str:
    url = f"http://127.0.0.1:{process.metrics_port}{path}"
    with _direct.open(url, timeout=30) as answer:
        body: bytes = answer.read()
    return body.decode()


def read_metric(process: OperatorProcess, name: str, **labels: str) -> float:
    """Read a metric's value, summed over all series with these labels."""
    lines = fetch(process, "/metrics").splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return sum(
        float(value)
        for key, value in samples
        if key.split("{")[0] == name and all(each in key for each in wanted)
    )
