"""Installs the operator on a devcluster: the chart's objects in it, its processes beside it.

The CRD, the rights and the webhook configuration are the chart's; processes run under the chart's
ServiceAccounts, so that a missing right shows.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import yaml

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError, CommandError
from devcluster.kubeconfig import (
    build_token_kubeconfig,
    read_own_kubeconfig,
    write_service_account,
)
from devcluster.ports import is_free
from devcluster.startup import CHART, PROJECT, tail
from devcluster.waiting import wait_until

NAMESPACE = "gpushare-system"
RELEASE = "gpushare"
IMAGE = "gpushare-operator"
"""Repository of the operator's image, without a registry."""
TEARDOWN_NAMESPACE = "gpushare-teardown"
TEARDOWN_IMAGE = "teardown.example.com/shell:v1"
"""Image of teardown Jobs, which is never pulled: the simulator plays the Jobs."""

Role = Literal["run", "controller", "webhook"]

_ACCOUNTS: dict[Role, str] = {
    "run": "gpushare-controller",
    "controller": "gpushare-controller",
    "webhook": "gpushare-webhook",
}
_IMAGE_REPOSITORY, _, _IMAGE_TAG = TEARDOWN_IMAGE.rpartition(":")
_TEARDOWN_VALUES = {
    "teardown.jobs.enabled": "true",
    "teardown.jobs.namespace": TEARDOWN_NAMESPACE,
    "teardown.jobs.image.repository": _IMAGE_REPOSITORY,
    "teardown.jobs.image.tag": _IMAGE_TAG,
}
_TEARDOWN_SETTINGS = {
    "GPUSHARE_ALLOW_TEARDOWN_JOBS": "true",
    "GPUSHARE_TEARDOWN_NAMESPACE": TEARDOWN_NAMESPACE,
    "GPUSHARE_TEARDOWN_IMAGE": TEARDOWN_IMAGE,
}
_TOKEN_SECONDS = 24 * 3600
_STOP_SECONDS = 30
_SERVED_SECONDS = 180


@dataclass(frozen=True)
class OperatorProcess:
    """A process of the operator, which ends with the cluster at the latest."""

    role: Role
    identity: str
    metrics_port: int
    log: Path
    process: subprocess.Popen[bytes]
    settings: Mapping[str, str] = field(repr=False)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL, as when the node dies, so that the process can't clean up."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Send SIGTERM, as when the Pod is deleted. Raises :class:`ClusterError` after 30 s."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ClusterError(
                f"{self.identity} ({self.role}) ignored SIGTERM for {_STOP_SECONDS} s and was "
                f"killed. The end of its log:\n{tail(self.log)}"
            ) from error


@dataclass
class Installation:
    """The operator installed from the chart; ``values`` as in ``helm --set``.

    ``all_in_one`` gives the controller's account the webhook's rights, as `gpushare run` needs;
    ``teardown_jobs`` lets pools remove the kernel module by Jobs, and tells processes so.
    """

    cluster: Cluster
    values: Mapping[str, str] = field(default_factory=dict)
    all_in_one: bool = True
    teardown_jobs: bool = False
    processes: list[OperatorProcess] = field(default_factory=list, init=False)

    @property
    def webhook_url(self) -> str:
        """URL for the API server of a webhook that runs outside of the cluster."""
        return f"https://127.0.0.1:{self.cluster.ports.webhook}"

    def render(self) -> str:
        """Render the chart's manifests as YAML, without Deployments unless `deploy` is set."""
        values = {
            "deploy": "false",
            "allInOne": str(self.all_in_one).lower(),
            "image.repository": IMAGE,
            **(_TEARDOWN_VALUES if self.teardown_jobs else {}),
            **self.values,
        }
        if values["deploy"] == "false":
            values = {"webhook.url": self.webhook_url, **values}
        settings = [f"--set={key}={value}" for key, value in values.items()]
        return self.cluster.helm(
            "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", *settings
        )

    def apply(self) -> None:
        """Create or update the chart's objects; return once the API server serves the CRD."""
        crds, others = split_crds(self.render())
        if not self.cluster.api.exists(f"/api/v1/namespaces/{NAMESPACE}"):
            self.cluster.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        apply_crds(self.cluster, crds)
        self.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(others))

    def start(
        self,
        role: Role = "run",
        *,
        identity: str,
        env: Mapping[str, str] | None = None,
        api_url: str | None = None,
    ) -> OperatorProcess:
        """Start a process under its role's ServiceAccount; it may not be ready yet on return.

        ``env`` adds GPUSHARE_* settings. Credentials are those of a Pod, or a kubeconfig with
        ``api_url``, the address of a proxy before the API server.
        """
        if role == "run" and not self.all_in_one:
            raise ClusterError("role 'run' needs the webhook's rights: all_in_one=True.")
        metrics_port = self._spare_port()
        settings = {
            "PYTHONPATH": str(PROJECT / "operator"),
            **self._grant(role, identity, api_url),
            "GPUSHARE_NAMESPACE": NAMESPACE,
            "GPUSHARE_IDENTITY": identity,
            "GPUSHARE_WEBHOOK_HOST": "127.0.0.1",
            "GPUSHARE_WEBHOOK_PORT": str(self.cluster.ports.webhook),
            "GPUSHARE_METRICS_HOST": "127.0.0.1",
            "GPUSHARE_METRICS_PORT": str(metrics_port),
            **(_TEARDOWN_SETTINGS if self.teardown_jobs else {}),
            **(env or {}),
        }
        return self._spawn(role, identity, metrics_port, settings)

    def restart(self, ended: OperatorProcess) -> OperatorProcess:
        """Start an ended process again, as the kubelet restarts a container.

        Name, settings and credentials stay; the API server is not called.
        """
        return self._spawn(ended.role, ended.identity, ended.metrics_port, ended.settings)

    def remove(self) -> None:
        """Stop the running processes and delete the objects of :meth:`apply`, the CRD last."""
        for process in self.processes:
            if process.alive:
                process.stop()
        crds, others = split_crds(self.render())
        for manifests in (others, crds):
            self.cluster.kubectl(
                "delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(manifests)
            )

    def _spawn(
        self, role: Role, identity: str, metrics_port: int, settings: Mapping[str, str]
    ) -> OperatorProcess:
        # A KUBECONFIG of the user's, or the cluster's admin one, must not come in by the back door.
        inherited = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        command = [sys.executable, "-m", "gpushare", role]
        log = f"{identity}.log"
        process = self.cluster.spawn(command, log=log, env={**inherited, **settings})
        path = self.cluster.logs / log
        started = OperatorProcess(role, identity, metrics_port, path, process, settings)
        self.processes.append(started)
        return started

    def _spare_port(self) -> int:
        taken = {process.metrics_port for process in self.processes if process.alive}
        for port in self.cluster.ports.spare:
            if port not in taken and is_free(port):
                return port
        raise ClusterError("The cluster's block has no port left: stop some operator processes.")

    def _grant(self, role: Role, identity: str, api_url: str | None) -> dict[str, str]:
        """Write credentials of the role's ServiceAccount; return the variables with their paths."""
        account = _ACCOUNTS[role]
        answer = self.cluster.api.call(
            "POST",
            f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token",
            {"spec": {"expirationSeconds": _TOKEN_SECONDS}},
        )
        token = answer["status"]["token"]
        admin = read_own_kubeconfig(self.cluster.kubeconfig)
        if api_url is None:
            folder = self.cluster.logs.parent / f"serviceaccount-{identity}"
            return write_service_account(admin, folder, token=token)
        kubeconfig = build_token_kubeconfig(admin, token=token, namespace=NAMESPACE, server=api_url)
        path = self.cluster.logs.parent / f"kubeconfig-{identity}"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(kubeconfig))
        return {"GPUSHARE_KUBECONFIG": str(path)}


def apply_crds(cluster: Cluster, crds: Sequence[dict[str, Any]]) -> None:
    """Create or update CRDs; return once the API server serves their kinds."""
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=build_list(crds))
    for crd in crds:
        name = crd["metadata"]["name"]
        wait_until(
            partial(_is_served, cluster, name),
            expectation=f"the API server serves {name}",
            timeout_seconds=_SERVED_SECONDS,
        )


def build_list(items: Sequence[dict[str, Any]]) -> str:
    """Build one manifest of several; JSON, since megabytes of CRDs take minutes as YAML."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})


def _is_served(cluster: Cluster, crd: str) -> bool:
    # A kind that is Established may be missing from discovery still, and its first request is
    # answered 429 until its storage is up, for which kubectl waits.
    try:
        cluster.kubectl("get", crd)
    except CommandError:
        return False
    return True


def split_crds(manifests: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split the manifests of a YAML stream into CRDs and others."""
    items = [item for item in yaml.safe_load_all(manifests) if item]
    crds = [item for item in items if item["kind"] == "CustomResourceDefinition"]
    return crds, [item for item in items if item not in crds]
