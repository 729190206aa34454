"""The three editions' DaemonSets, as the vendor installs them into kube-system."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from devcluster import names
from devcluster.apiserver import ApiServer
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.waiting import wait_until

Edition = Literal["OpenSource", "Basic", "Professional"]
EDITIONS: tuple[Edition, ...] = get_args(Edition)

_MANIFESTS = Path(__file__).resolve().parent / "editions"
_FILES: dict[Edition, str] = {
    "OpenSource": "open-source.yaml",
    "Basic": "basic.yaml",
    "Professional": "professional.yaml",
}
_DAEMONSETS = f"/apis/apps/v1/namespaces/{names.SYSTEM_NAMESPACE}/daemonsets"
_PODS = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/pods"
_INSTALLED_AS = f"{names.PREFIX}edition"
_GONE_SECONDS = 180


def load_edition(edition: Edition, *, name_label: bool = True) -> list[dict[str, Any]]:
    """Load the DaemonSet manifests of ``edition``.

    With ``name_label`` False the pods have ``k8s-app`` instead of ``name``: it is not documented
    whether the Professional edition's pods have that label.
    """
    manifests = list(yaml.safe_load_all((_MANIFESTS / _FILES[edition]).read_text()))
    installed_as = edition if name_label else f"{edition}-unnamed"
    for manifest in manifests:
        manifest["metadata"]["labels"] = {_INSTALLED_AS: installed_as}
        if not name_label:
            _rename_name_label(manifest["spec"])
    return manifests


def install_edition(cluster: Cluster, edition: Edition, *, name_label: bool = True) -> None:
    """Install ``edition``, and remove the DaemonSets and pods of others.

    Installing it again changes nothing, so no plugin restarts.
    """
    if edition not in EDITIONS:
        raise ClusterError(f"Edition {edition!r}: use one of {', '.join(EDITIONS)}.")
    install_daemonsets(cluster, load_edition(edition, name_label=name_label))


def install_daemonsets(cluster: Cluster, manifests: Iterable[dict[str, Any]]) -> None:
    """Install changed manifests, with the labels of `load_edition`, and remove others."""
    wanted = {item["metadata"]["name"]: item for item in manifests}
    present = _present(cluster.api)
    kept = {name for name, item in wanted.items() if present.get(name) == _installed_as(item)}
    stale = set(present) - kept
    for name in stale:
        cluster.api.call("DELETE", f"{_DAEMONSETS}/{name}")
    wait_until(
        lambda: not stale & _observe_daemonsets_and_owners(cluster.api),
        expectation=f"other editions' DaemonSets and their pods are gone ({', '.join(stale)})",
        timeout_seconds=_GONE_SECONDS,
    )
    for name in wanted.keys() - kept:
        cluster.api.call("POST", _DAEMONSETS, wanted[name])


def _installed_as(manifest: dict[str, Any]) -> str | None:
    labels = manifest["metadata"].get("labels") or {}
    value: str | None = labels.get(_INSTALLED_AS)
    return value


def _present(api: ApiServer) -> dict[str, str | None]:
    known = {item["metadata"]["name"] for edition in EDITIONS for item in load_edition(edition)}
    items = api.call("GET", _DAEMONSETS)["items"]
    return {
        item["metadata"]["name"]: _installed_as(item)
        for item in items
        if item["metadata"]["name"] in known
    }


def _observe_daemonsets_and_owners(api: ApiServer) -> set[str]:
    """Return the names of DaemonSets that exist or have pods."""
    daemonsets = {item["metadata"]["name"] for item in api.call("GET", _DAEMONSETS)["items"]}
    owners = (
        owner
        for pod in api.call("GET", _PODS)["items"]
        for owner in pod["metadata"].get("ownerReferences", [])
    )
    return daemonsets | {owner["name"] for owner in owners if owner["kind"] == "DaemonSet"}


def _rename_name_label(spec: dict[str, Any]) -> None:
    for holder in (spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]):
        holder["k8s-app"] = holder.pop("name")
