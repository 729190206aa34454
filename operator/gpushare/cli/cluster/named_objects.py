"""Reads what a question about one object needs: by name, where listing is forbidden."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from urllib.parse import quote

from gpushare import names
from gpushare.api.k8s.node import parse_node
from gpushare.api.pruned.cluster import Cluster, Json, Kind, Subject
from gpushare.cli.cluster.objects import PATHS, read_cluster, read_object
from gpushare.core.ownership.claims import find_owner
from gpushare.core.records.node_records import parse_records
from gpushare.core.records.record import RecordError
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import ApiError


async def read_about(
    api: ApiClient,
    kinds: tuple[Kind, ...],
    subject: Subject,
    now: datetime,
    *,
    node: str = "",
    pods_of: str = "",
) -> Cluster:
    """Read the cluster as `read_cluster` does; where a kind may not be listed, read the subject,
    its node, pool and namespace by name as far as allowed, with the refusal in `unread`. With
    `pods_of` only the pods of that namespace.

    Raises what a call may raise, a refusal only where the subject can be neither listed nor got.
    """
    cluster = Cluster(now)
    # The subject first: a pod leads to its node, a node to its pool.
    for kind in sorted(kinds, key=lambda kind: kind is not subject.kind):
        try:
            read = await read_cluster(api, (kind,), now, node=node, pods_of=pods_of)
            found = getattr(read, kind)
            cluster = replace(cluster, unread={**cluster.unread, **read.unread})
        except ApiError as error:
            if error.status != 403:
                raise
            found = await _get_named(api, kind, subject, cluster)
            # Of the namespaces the pod's own says all.
            if kind is not Kind.NAMESPACES or not found:
                cluster = replace(cluster, unread={**cluster.unread, kind: error.message})
        cluster = replace(cluster, **{str(kind): found})
    return cluster


async def _get_named(
    api: ApiClient, kind: Kind, subject: Subject, cluster: Cluster
) -> tuple[Json, ...]:
    found: list[Json] = []
    parent = PATHS.get(kind, "")
    if kind is Kind.PODS:
        parent = f"api/v1/namespaces/{quote(subject.namespace, safe='')}/pods"
    for name in _find_names(kind, subject, cluster):
        try:
            found += await read_object(api, kind, f"{parent}/{quote(name, safe='')}")
        except ApiError as error:
            if error.status != 403 or kind is subject.kind:
                raise
    return tuple(found)


def _find_names(kind: Kind, subject: Subject, cluster: Cluster) -> Iterator[str]:
    """Find the names of this kind's objects that belong to the subject, by what was read before."""
    match kind, subject.kind:
        case Kind.NAMESPACES, Kind.PODS:
            yield subject.namespace
        case Kind.NODES, Kind.PODS:
            yield from (pod["spec"]["nodeName"] for pod in cluster.pods if _is_bound(subject, pod))
        case Kind.POOLS, Kind.NODES:
            owners = (_find_owner(node) for node in cluster.nodes if subject.is_it(node))
            yield from filter(None, owners)
        case _:
            if kind is subject.kind:
                yield subject.name


def _is_bound(subject: Subject, pod: Json) -> bool:
    return subject.is_it(pod) and bool((pod.get("spec") or {}).get("nodeName"))


def _find_owner(raw: Json) -> str | None:
    node = parse_node(raw)
    try:
        return find_owner(node, parse_records(node))
    except RecordError:
        return node.labels.get(names.LABEL_POOL)
