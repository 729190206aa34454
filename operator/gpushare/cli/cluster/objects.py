"""A cluster, read once: whole or not at all."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from gpushare import names
from gpushare.analysis.finding import Unseen
from gpushare.api.k8s.daemonset import parse_daemonset
from gpushare.api.pruned.cluster import (
    REFUSABLE,
    Cluster,
    Json,
    Kind,
    MalformedObjectError,
    keep_object,
)
from gpushare.cli.cluster.deployments import list_deployments, parse_deployment
from gpushare.cli.cluster.partial_read import see
from gpushare.kube.client import ApiClient, list_pages
from gpushare.kube.errors import CALL_FAILURES, ApiError, MalformedAnswerError, OtherVersionError
from gpushare.kube.resources.dynamic_resources import OF_DRIVER, find_group_path
from gpushare.settings import Variable

ATTEMPTS = 3
PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
"""Short: a user who waits at a terminal can try again after the error is shown."""
PATHS: Mapping[Kind, str] = {
    Kind.NODES: "api/v1/nodes",
    Kind.PODS: "api/v1/pods",
    Kind.POOLS: f"apis/{names.API_VERSION}/{names.PLURAL}",
    Kind.DAEMONSETS: f"apis/apps/v1/namespaces/{names.PLUGIN_NAMESPACE}/daemonsets",
    Kind.NAMESPACES: "api/v1/namespaces",
    Kind.CONFIGMAPS: f"api/v1/namespaces/{names.EXTENDER_NAMESPACE}/configmaps",
    Kind.PODDISRUPTIONBUDGETS: "apis/policy/v1/poddisruptionbudgets",
}

_NODE_FIELDS = {Kind.NODES: "metadata.name", Kind.PODS: "spec.nodeName"}
"""Field that selects the objects of one node, by kind."""
_SPECIAL = re.compile(r"[\\,=]")

Found = TypeVar("Found")


async def read_cluster(
    api: ApiClient, kinds: Collection[Kind], now: datetime, *, node: str = "", pods_of: str = ""
) -> Cluster:
    """Read the cluster's objects of these kinds; with `node`, that node alone and the pods bound
    to it; with `pods_of`, the pods of that namespace alone.

    A list that breaks off is begun again, a few times. Raises what a call may raise. A cluster
    without pools' API has None of them, and there are None of the operator's Deployments where one
    may not read those. Kinds of `REFUSABLE` that one may not list are `unread`.
    """
    found, unread = {}, {}
    for kind in kinds:
        try:
            found[kind] = await _try(partial(_read_kind, api, kind, node, pods_of))
        except ApiError as error:
            if kind not in REFUSABLE or error.status != 403:
                raise
            unread[kind] = error.message
    return Cluster(now, unread=unread, **found)  # type: ignore[arg-type]


async def read_object(api: ApiClient, kind: Kind, path: str) -> tuple[Json, ...]:
    """Read the object at `path`; empty where there is none, or a pod without any tie to GPUs.

    Raises what a call may raise.
    """
    raw = await _try(partial(api.find, path))
    return () if raw is None else _keep(kind, (raw,))


async def _try(read: Callable[[], Awaitable[Found]]) -> Found:
    for _ in range(ATTEMPTS - 1):
        try:
            return await read()
        except CALL_FAILURES as error:
            if not _is_worth_another_try(error):
                raise
        await asyncio.sleep(PAUSE_SECONDS)
    return await read()


def _is_worth_another_try(error: Exception) -> bool:
    """Tell whether another try is sensible, and its pause is no longer than a user waits."""
    if isinstance(error, ApiError):
        pause = error.retry_after_seconds or 0.0
        return (error.is_overload or error.is_expired) and pause <= LONGEST_PAUSE_SECONDS
    return not isinstance(error, TimeoutError)


async def _read_kind(
    api: ApiClient, kind: Kind, node: str, pods_of: str
) -> tuple[Json, ...] | None:
    if kind is Kind.DEPLOYMENTS:
        found = await list_deployments(api)
        return None if isinstance(found, Unseen) else tuple(_keep(kind, found))
    if kind is Kind.PLUGINCONFIGS:
        return await _read_nvidias(api, kind)
    wanted = {"fieldSelector": _build_selector(_NODE_FIELDS[kind], node)} if node else {}
    path: str | None = PATHS.get(kind)
    if pods_of and kind is Kind.PODS:
        path = f"api/v1/namespaces/{quote(pods_of, safe='')}/pods"
    if kind in (Kind.RESOURCESLICES, Kind.RESOURCECLAIMS):
        wanted = dict(OF_DRIVER) if kind is Kind.RESOURCESLICES else {}
        group = await find_group_path(api)
        path = group and f"{group}/{kind}"
    if path is None:
        return ()
    try:
        read = await _read_all(api, kind, path, **wanted)
        # Where NVIDIA's may not be read, the kind of the ConfigMaps says so.
        nvidias = await see(_read_nvidias(api, kind)) if kind is Kind.DAEMONSETS else ()
        return read if isinstance(nvidias, Unseen) else (*read, *nvidias)
    except ApiError as error:
        if kind is not Kind.POOLS or not error.is_not_found:
            raise
    await _expect_no_group(api)
    return None


async def _read_all(api: ApiClient, kind: Kind, path: str, **wanted: str) -> tuple[Json, ...]:
    kept: list[Json] = []
    async for page in list_pages(api, path, **wanted):
        kept += _keep(kind, page.items)
    return tuple(kept)


async def _read_nvidias(api: ApiClient, kind: Kind) -> tuple[Json, ...]:
    """Read the DaemonSets beside NVIDIA's plugin, or the ConfigMaps that those load, in the
    namespace that the operator's Deployments name; nothing where they name none."""
    deployments = await list_deployments(api)
    if isinstance(deployments, Unseen):
        return ()
    settings = (parse_deployment(each).settings for each in deployments)
    namespace = next(filter(None, (each.get(Variable.NVIDIA_NAMESPACE) for each in settings)), "")
    if not namespace:
        return ()
    path = f"apis/apps/v1/namespaces/{namespace}/daemonsets"
    daemonsets = await _read_all(api, Kind.DAEMONSETS, path)
    if kind is Kind.DAEMONSETS:
        return daemonsets
    loaded = sorted({parse_daemonset(each).config_map for each in daemonsets} - {""})
    paths = [f"api/v1/namespaces/{namespace}/configmaps/{name}" for name in loaded]
    return tuple([each for path in paths for each in await read_object(api, kind, path)])


async def _expect_no_group(api: ApiClient) -> None:
    """Raise `OtherVersionError` where there are pools, and this program can't read them."""
    try:
        group = await api.get(f"apis/{names.GROUP}")
    except ApiError as error:
        if error.status in (403, 404):
            return
        raise
    versions = group.get("versions") or ()
    served = [
        str(each["version"]) for each in versions if isinstance(each, dict) and "version" in each
    ]
    if served and names.VERSION not in served:
        raise OtherVersionError(served)


def _build_selector(field: str, value: str) -> str:
    """Build a field selector for this value, whatever is in it ("Field Selectors" in the Kubernetes
    documentation; escaped as in apimachinery's fields package)."""
    return f"{field}={_SPECIAL.sub(lambda found: chr(92) + found[0], value)}"


def _keep(kind: Kind, items: Collection[Json]) -> tuple[Json, ...]:
    try:
        kept = (keep_object(kind, raw) for raw in items)
        return tuple(raw for raw in kept if raw is not None)
    except MalformedObjectError as error:
        raise MalformedAnswerError(f"list {PATHS.get(kind, kind)}: {error}") from error
