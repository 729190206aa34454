"""Reads the workloads, quotas and limits in a cluster, as the API server has them."""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple
from urllib.parse import quote

from gpushare.kube.client import ApiClient, Json, list_pages
from gpushare.kube.errors import ApiError
from gpushare.workload_kinds import WORKLOAD_KINDS

LIMITS = (("v1", "ResourceQuota"), ("v1", "LimitRange"))


class _ListedKind(NamedTuple):
    api_version: str
    kind: str
    resource: str


_BUILT_IN = (
    *(
        _ListedKind(f"{each.group}/v1", each.kind, each.resource)
        for each in WORKLOAD_KINDS
        if each.is_built_in
    ),
    _ListedKind("apps/v1", "ReplicaSet", "replicasets"),
    _ListedKind("v1", "Pod", "pods"),
)


class FoundWorkloads(NamedTuple):
    """Workloads with the quotas and limits, and the kinds that the user may not read."""

    objects: tuple[Json, ...]
    forbidden: tuple[str, ...]


async def list_workloads(
    api: ApiClient, namespace: str | None, selector: str, is_wanted: Callable[[Json], bool]
) -> FoundWorkloads:
    """List workloads with these labels, and all quotas and limits; None: in all namespaces.

    What is not wanted is not held: most pods are made by workloads. Kinds of other projects are
    read where the cluster has them and the user may. Raises what a call may raise.
    """
    params = {"labelSelector": selector} if selector else {}
    found: list[Json] = []
    forbidden = []
    for kind in _BUILT_IN:
        found += [each async for each in _list(api, kind, namespace, params) if is_wanted(each)]
    for kind in await _find_others(api):
        try:
            found += [each async for each in _list(api, kind, namespace, params) if is_wanted(each)]
        except ApiError as error:
            if error.is_refusal:
                forbidden.append(kind.resource)
            elif not error.is_not_found:
                raise
    for version, name in LIMITS:
        kind = _ListedKind(version, name, f"{name.lower()}s")
        found += [each async for each in _list(api, kind, namespace, {})]
    return FoundWorkloads(tuple(found), tuple(forbidden))


async def _find_others(api: ApiClient) -> tuple[_ListedKind, ...]:
    """Find the kinds of other projects whose group the cluster has."""
    groups = (await api.get("apis")).get("groups") or ()
    versions = {each["name"]: each["preferredVersion"]["groupVersion"] for each in groups}
    return tuple(
        _ListedKind(versions[each.group], each.kind, each.resource)
        for each in WORKLOAD_KINDS
        if not each.is_built_in and each.group in versions
    )


async def _list(
    api: ApiClient, kind: _ListedKind, namespace: str | None, params: dict[str, str]
) -> AsyncIterator[Json]:
    group = f"apis/{kind.api_version}" if "/" in kind.api_version else f"api/{kind.api_version}"
    within = "" if namespace is None else f"namespaces/{quote(namespace, safe='')}/"
    async for page in list_pages(api, f"{group}/{within}{kind.resource}", **params):
        for item in page.items:
            # The items of a list don't say what they are.
            yield {"apiVersion": kind.api_version, "kind": kind.kind, **item}
