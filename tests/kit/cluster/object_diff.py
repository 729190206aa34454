"""Compares objects with their field owners, and lists of all objects."""

from collections.abc import Iterator
from typing import Any

from devcluster.cluster import Cluster
from tests.kit.values.manifests import Json

_PASSING = frozenset({"events"})
"""Resources that are deleted by themselves."""


def find_differences(before: Json, after: Json) -> dict[str, tuple[Any, Any]]:
    """Return the values before and after by path, with None for absence.

    Owners in managedFields are compared, but not times: a path
    `managedFields/MANAGER/OPERATION/SUBRESOURCE/FIELD` has the value True.
    """
    old, new = dict(_flatten(before)), dict(_flatten(after))
    return {
        path: (old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    }


def _flatten(item: Json) -> Iterator[tuple[str, Any]]:
    rest = {**item, "metadata": {k: v for k, v in item["metadata"].items() if k != "managedFields"}}
    yield from _leaves("", rest)
    for entry in item["metadata"]["managedFields"]:
        writer = (entry["manager"], entry["operation"], entry.get("subresource", "-"))
        for path, _ in _leaves("", entry["fieldsV1"]):
            yield f"managedFields/{'/'.join(writer)}{path}", True


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{path}/{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            # A condition is known by its type, wherever it stands.
            name = inner.get("type", index) if isinstance(inner, dict) else index
            yield from _leaves(f"{path}/{name}", inner)
    else:
        yield path, value


def take_inventory(cluster: Cluster) -> set[str]:
    """List each object as RESOURCE.GROUP NAMESPACE/NAME, without Events, which expire, and pods of
    DaemonSets, which depend on node labels."""
    return {
        line
        for path, resource in _list_resources(cluster)
        for line in _list(cluster, path, resource)
    }


def _list_resources(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each kind, in one version of each group."""
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
