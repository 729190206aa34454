"""Runs KServe beside a cluster, from the charts in its own module."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from devcluster.cluster import Cluster
from devcluster.company.controller import Controller, make_place, read_manifests, running
from devcluster.toolchain import KSERVE, ensure_binaries, find_source

Json = dict[str, Any]

_MODULE = "github.com/kserve/kserve"
_NAMESPACE, _ACCOUNT = "kserve", "kserve-controller-manager"
_HOST = f"kserve-webhook-server-service.{_NAMESPACE}.svc"
_CHARTS = ("kserve-crd", "kserve-resources", "kserve-runtime-configs")
_CERT_MANAGERS = ("Certificate", "Issuer")


@contextlib.contextmanager
def running_kserve(
    cluster: Cluster, *, report: Callable[[str], None] = print
) -> Iterator[Controller]:
    """Install and run KServe with its serving runtimes for a block, without Knative: what it serves
    are Deployments."""
    program = ensure_binaries(os.environ, KSERVE, report=report) / "kserve-manager"
    place = make_place(cluster, "kserve", _HOST)
    _offer_certificate(place.folder)
    command = [
        str(program),
        f"--metrics-addr=127.0.0.1:{place.metrics}",
        f"--health-probe-addr=127.0.0.1:{place.health}",
        f"--webhook-port={place.webhook}",
    ]
    manifests = [each for each in _render(cluster) if each["kind"] not in _CERT_MANAGERS]
    env = {"TMPDIR": str(place.folder), "POD_NAMESPACE": _NAMESPACE}
    account = (_NAMESPACE, _ACCOUNT)
    with running(cluster, place, manifests, command, account=account, env=env) as started:
        yield started


def _offer_certificate(folder: Path) -> None:
    """Put the certificate where controller-runtime reads it, below the temporary files."""
    expected = folder / "k8s-webhook-server" / "serving-certs"
    expected.parent.mkdir(exist_ok=True)
    if not expected.exists():
        expected.symlink_to(folder)


def _render(cluster: Cluster) -> list[Json]:
    charts = find_source(os.environ, KSERVE, _MODULE) / "charts"
    values = ("--namespace", _NAMESPACE, "--set=kserve.servingruntime.enabled=true")
    texts = [cluster.helm("template", "kserve", str(charts / each), *values) for each in _CHARTS]
    return [each for text in texts for each in read_manifests(text)]
