"""Runs Kueue beside a cluster, from the chart in its own module."""

import contextlib
import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from devcluster.cluster import Cluster
from devcluster.company.controller import (
    Controller,
    Place,
    make_place,
    read_manifests,
    running,
)
from devcluster.toolchain import KUEUE, ensure_binaries, find_source

Json = dict[str, Any]

_FRAMEWORKS = ["batch/job", "pod", "deployment", "statefulset"]
"""Integrations whose kinds every cluster has."""
_NAMESPACE, _ACCOUNT = "kueue-system", "kueue-controller-manager"
_HOST = f"kueue-webhook-service.{_NAMESPACE}.svc"
_CA = "kueue-ca"
"""The name that Kueue expects in the certificate of its CA; with another it issues a new one."""
_SECRET = "kueue-webhook-server-cert"
_CONFIGURATION = "kueue-manager-config"
# It is an API server of its own, which needs a Service.
_FEATURES = "VisibilityOnDemand=false"


@contextlib.contextmanager
def running_kueue(
    cluster: Cluster,
    *,
    report: Callable[[str], None] = print,
) -> Iterator[Controller]:
    """Install and run Kueue for a block, by its default settings but for `_FRAMEWORKS`.

    Kueue writes its certificate's CA into its webhooks and CRDs, and issues a certificate where its
    Secret has none: here it finds one that names 127.0.0.1, too.
    """
    program = ensure_binaries(os.environ, KUEUE, report=report) / "kueue"
    place = make_place(cluster, "kueue", _HOST, _CA)
    manifests = _render(cluster)
    (text,) = (
        each["data"]["controller_manager_config.yaml"]
        for each in manifests
        if each["metadata"]["name"] == _CONFIGURATION
    )
    file = place.folder / "config.yaml"
    file.write_text(yaml.safe_dump(_configure(yaml.safe_load(text), place)))
    for each in manifests:
        if each["kind"] == "Secret" and each["metadata"]["name"] == _SECRET:
            each["data"] = _read_certificate(place)
    command = [str(program), f"--config={file}", f"--feature-gates={_FEATURES}"]
    account = (_NAMESPACE, _ACCOUNT)
    with running(cluster, place, manifests, command, account=account) as started:
        yield started


def _render(cluster: Cluster) -> list[Json]:
    chart = find_source(os.environ, KUEUE, "sigs.k8s.io/kueue") / "charts" / "kueue"
    return read_manifests(
        cluster.helm("template", "kueue", str(chart), f"--namespace={_NAMESPACE}")
    )


def _configure(settings: Json, place: Place) -> Json:
    return {
        **settings,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{place.health}"},
        "metrics": {"bindAddress": f"127.0.0.1:{place.metrics}"},
        "webhook": {"host": "127.0.0.1", "port": place.webhook, "certDir": str(place.folder)},
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": _FRAMEWORKS},
    }


def _read_certificate(place: Place) -> Json:
    # The certificate is its own CA.
    files = {"ca.crt": "tls.crt", "ca.key": "tls.key", "tls.crt": "tls.crt", "tls.key": "tls.key"}
    return {
        key: b64encode((place.folder / file).read_bytes()).decode() for key, file in files.items()
    }
