"""Runs KubeRay beside a cluster, from the manifests in its own module."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from devcluster.cluster import Cluster
from devcluster.company.controller import Controller, make_place, read_manifests, running
from devcluster.toolchain import KUBERAY, ensure_binaries, find_source

Json = dict[str, Any]

_MODULE = "github.com/ray-project/kuberay/ray-operator"
_NAMESPACE, _ACCOUNT = "kuberay-system", "kuberay-operator"
_RIGHTS = ("role.yaml", "role_binding.yaml", "service_account.yaml")


@contextlib.contextmanager
def running_kuberay(
    cluster: Cluster, *, report: Callable[[str], None] = print
) -> Iterator[Controller]:
    """Install and run KubeRay for a block. Ray itself does not run, so nobody scales a cluster."""
    program = ensure_binaries(os.environ, KUBERAY, report=report) / "ray-operator"
    place = make_place(cluster, "kuberay", _ACCOUNT)
    command = [
        str(program),
        f"--metrics-addr=127.0.0.1:{place.metrics}",
        f"--health-probe-bind-address=127.0.0.1:{place.health}",
        "--enable-leader-election=false",
    ]
    account = (_NAMESPACE, _ACCOUNT)
    with running(cluster, place, _read_manifests(), command, account=account) as started:
        yield started


def _read_manifests() -> list[Json]:
    config = find_source(os.environ, KUBERAY, _MODULE) / "config"
    files = [*sorted(config.glob("crd/bases/*.yaml")), *(config / "rbac" / e for e in _RIGHTS)]
    manifests = [_shorten(each) for file in files for each in read_manifests(file.read_text())]
    for each in manifests:
        if each["kind"] == "ServiceAccount":
            each["metadata"]["namespace"] = _NAMESPACE
        for subject in each.get("subjects") or ():
            subject["namespace"] = _NAMESPACE
    return manifests


def _shorten(value: Any) -> Any:
    """Leave out descriptions of fields: most of the 4 MB of CRDs."""
    if isinstance(value, list):
        return [_shorten(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = (key for key, each in value.items() if key != "description" or isinstance(each, dict))
    return {key: _shorten(value[key]) for key in kept}
