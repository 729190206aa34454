"""Lists GPUSharePools, and writes their finalizer and their status."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from gpushare import names
from gpushare.api.pool import Pool, PoolSpec, Schedule, UnreadablePool
from gpushare.api.selector import Nodes
from gpushare.api.status import PoolStatus
from gpushare.kube.client import JSON_PATCH, ApiClient, Json, list_pages
from gpushare.kube.errors import ApiError, CrdMissingError, MalformedAnswerError

PATH = f"apis/{names.API_VERSION}/{names.PLURAL}"


async def check_crd(api: ApiClient) -> None:
    """Raise `CrdMissingError` where the API server does not serve or not yet list GPUSharePools.

    Lists pools rather than the CRD: a CRD that was just created is not served yet. Reads discovery
    too, whose parts follow one by one: Kopf reads it once to find what it watches.
    """
    await _get(api, PATH, limit="1")
    groups = (await _get(api, "apis"))["groups"]
    resources = (await _get(api, f"apis/{names.API_VERSION}"))["resources"]
    served = {item["name"] for item in (*groups, *resources)}
    if not {names.GROUP, names.PLURAL} <= served:
        raise CrdMissingError


async def _list(api: ApiClient) -> tuple[int, list[Json]]:
    """Return the resourceVersion of the list, and the pools."""
    try:
        pages = [page async for page in list_pages(api, PATH)]
    except ApiError as error:
        if error.is_not_found:
            raise CrdMissingError from error
        raise
    return int(pages[0].version), [raw for page in pages for raw in page.items]


async def _get(api: ApiClient, path: str, **params: str) -> Json:
    answer = await api.find(path, **params)
    if answer is None:
        raise CrdMissingError
    return answer


_NO_SPEC = PoolSpec(nodes=Nodes(), schedule=Schedule.DEFAULT)
"""Spec for a pool that is being deleted and can't be read: claims no nodes, retains labels."""


_METADATA = "metadata"
_WINDOWS = ("rollout", "windows")
_PARTS = {PoolSpec.__name__: "spec", PoolStatus.__name__: "status"}


@dataclass(frozen=True, slots=True)
class PoolList:
    """All pools of one list, readable or not."""

    version: int
    """resourceVersion of the list; that of a later list is not lower."""
    pools: tuple[Pool | UnreadablePool, ...]


async def list_pools(api: ApiClient) -> PoolList:
    """List the pools from the API server. Raises `CrdMissingError`."""
    version, items = await _list(api)
    return PoolList(version, tuple(map(parse_pool, items)))


def parse_pools(
    items: Iterable[Json],
) -> tuple[tuple[Pool, ...], tuple[UnreadablePool, ...]]:
    """Parse pools; return the readable ones, and the others."""
    parsed = [parse_pool(raw) for raw in items]
    return (
        tuple(pool for pool in parsed if isinstance(pool, Pool)),
        tuple(pool for pool in parsed if isinstance(pool, UnreadablePool)),
    )


def parse_pool(raw: Json) -> Pool | UnreadablePool:
    """Parse a pool, or the readable part of it.

    Raises `MalformedAnswerError` for an object without name or UID, so that its list is not used.
    """
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    if not (isinstance(meta, dict) and meta.get("name") and meta.get("uid")):
        raise MalformedAnswerError("a GPUSharePool has no name or no UID")
    try:
        return Pool.parse(raw)
    except ValidationError as error:
        unreadable = _describe_unreadable(raw, error)
        has_rest = all(each["loc"][:2] == _WINDOWS for each in error.errors())
    if has_rest and (pool := _parse_without_windows(raw, unreadable.error)) is not None:
        return pool
    if "deletionTimestamp" in meta and unreadable.part != _METADATA:
        return _parse_without_spec(raw)
    return unreadable


async def list_pools_for_removal(api: ApiClient) -> tuple[Pool, ...]:
    """List every pool, whichever version wrote it; an unreadable spec is left out.

    Raises `CrdMissingError`.
    """
    _, items = await _list(api)
    parsed = ((raw, parse_pool(raw)) for raw in items)
    return tuple(
        pool if isinstance(pool, Pool) else _parse_without_spec(raw) for raw, pool in parsed
    )


def _parse_without_spec(raw: Json) -> Pool:
    pool = Pool.parse({"metadata": raw["metadata"]}, _NO_SPEC)
    return pool.model_copy(update={"status": _parse_status(raw)})


def _parse_without_windows(raw: Json, why: str) -> Pool | None:
    """Parse a pool without its windows, so that a change under way is still finished."""
    rollout = {k: v for k, v in raw["spec"]["rollout"].items() if k != "windows"}
    try:
        pool = Pool.parse({**raw, "spec": {**raw["spec"], "rollout": rollout}})
    except ValidationError:
        return None
    message = f"No change begins until the windows are valid. {why}"
    return pool.model_copy(update={"invalid_windows": message})


def _describe_unreadable(raw: Json, error: ValidationError) -> UnreadablePool:
    meta, (first, *_) = raw["metadata"], error.errors()
    part = _PARTS.get(error.title, _METADATA)
    where = ".".join((part, *map(str, first["loc"])))
    # For a check of ours its text without pydantic's prefix.
    message = first["ctx"]["error"] if first["type"] == "value_error" else first["msg"]
    return UnreadablePool(
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        status=_parse_status(raw),
        error=f"{where}: {message}",
        resource_version=int(meta.get("resourceVersion", 0)),
    )


def _parse_status(raw: Json) -> PoolStatus:
    try:
        return PoolStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        return PoolStatus()


async def apply_finalizer(api: ApiClient, pool: Pool) -> Json:
    """Add our finalizer; those of others stay. Return the resulting pool."""
    body = _identify(pool)
    body["metadata"]["finalizers"] = [names.FINALIZER]
    return await api.apply(f"{PATH}/{pool.name}", body)


async def drop_finalizer(api: ApiClient, pool: Pool) -> bool:
    """Remove our finalizer; return whether the pool had it.

    A patch, since an apply removes only fields that it owns, and a restored pool has a finalizer
    that it does not own. Raises `ApiError`: a conflict or an invalid patch where the pool changed
    meanwhile.
    """
    raw = await api.find(f"{PATH}/{pool.name}")
    if raw is None:
        return False
    finalizers = raw["metadata"].get("finalizers") or []
    if raw["metadata"]["uid"] != pool.uid or names.FINALIZER not in finalizers:
        return False
    path = f"/metadata/finalizers/{finalizers.index(names.FINALIZER)}"
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": pool.uid},
        {"op": "test", "path": path, "value": names.FINALIZER},
        {"op": "remove", "path": path},
    ]
    await api.patch(f"{PATH}/{pool.name}", patch, content_type=JSON_PATCH)
    return True


async def delete_pool(api: ApiClient, pool: Pool) -> None:
    """Delete the pool unless it is gone. Raises `ApiError`: a conflict for a later pool."""
    try:
        await api.delete(f"{PATH}/{pool.name}", uid=pool.uid)
    except ApiError as error:
        if not error.is_not_found:
            raise


async def apply_status(api: ApiClient, pool: Pool | UnreadablePool, status: PoolStatus) -> Json:
    """Write the whole status; omitted fields are removed. Return the resulting pool."""
    body = _identify(pool) | {
        "status": status.model_dump(mode="json", by_alias=True, exclude_none=True)
    }
    return await api.apply(f"{PATH}/{pool.name}/status", body)


def _identify(pool: Pool | UnreadablePool) -> Json:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": pool.name, "uid": pool.uid},
    }
