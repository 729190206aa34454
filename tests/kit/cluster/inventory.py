"""Everything that is in a cluster, by the API server's own list of what it serves."""

from collections.abc import Iterator
from typing import Any

from devcluster.cluster import Cluster

Json = dict[str, Any]

_PASSING = frozenset({"events"})
"""What goes by itself."""


def take_inventory(cluster: Cluster) -> set[str]:
    """Each object, as RESOURCE.GROUP NAMESPACE/NAME.

    Without Events, which expire, and pods of DaemonSets: which of those there are follows the
    labels of nodes.
    """
    return {
        line
        for path, resource in _list_resources(cluster)
        for line in _list(cluster, path, resource)
    }


def _list_resources(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Where each kind is listed, and what it is called: one version of each group."""
    groups = cluster.api.call("GET", "/apis")["groups"]
    served = (
        (f"/apis/{group['preferredVersion']['groupVersion']}", group["name"]) for group in groups
    )
    for path, group in [("/api/v1", ""), *served]:
        for each in cluster.api.call("GET", path)["resources"]:
            if "list" in each["verbs"] and each["name"] not in _PASSING:
                yield f"{path}/{each['name']}", ".".join(filter(None, (each["name"], group)))


def _list(cluster: Cluster, path: str, resource: str) -> Iterator[str]:
    for item in cluster.api.call("GET", path).get("items") or ():
        meta = item["metadata"]
        if not any(owner["kind"] == "DaemonSet" for owner in meta.get("ownerReferences", ())):
            yield f"{resource} {meta.get('namespace', '')}/{meta['name']}"
