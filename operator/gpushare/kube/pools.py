"""GPUSharePools: listed, adopted, given up, and told how they are."""

from dataclasses import dataclass

from pydantic import ValidationError

from gpushare import names
from gpushare.api.pool import Nodes, Pool, PoolSpec, Schedule
from gpushare.api.status import PoolStatus
from gpushare.kube.client import JSON_PATCH, ApiServer, Json
from gpushare.kube.errors import ApiError, CrdMissingError

PATH = f"apis/{names.API_VERSION}/{names.PLURAL}"
CRD = f"{names.PLURAL}.{names.GROUP}"


async def check_crd(api: ApiServer) -> None:
    """Raise `CrdMissingError` where the cluster does not know the GPUSharePool."""
    try:
        await api.get(f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}")
    except ApiError as error:
        if not error.is_not_found:
            raise
        raise CrdMissingError(
            f"the CustomResourceDefinition {CRD} is not in the cluster; install the chart with "
            "crds.install=true, or apply crds/gpusharepools.yaml"
        ) from error


@dataclass(frozen=True, slots=True)
class UnreadablePool:
    """A pool whose spec is none that this version knows."""

    name: str
    uid: str
    generation: int
    status: PoolStatus
    error: str


_NO_SPEC = PoolSpec(nodes=Nodes(), schedule=Schedule.DEFAULT)
"""In place of the spec of a pool that is being deleted: it claims nothing, and retains labels."""


@dataclass(frozen=True, slots=True)
class PoolList:
    """All pools at one moment: those that can be read, and the others."""

    version: int
    """resourceVersion of the list; a later list has none that is lower."""
    pools: tuple[Pool, ...]
    unreadable: tuple[UnreadablePool, ...] = ()


async def list_pools(api: ApiServer) -> PoolList:
    """The pools as the API server has them now."""
    pools: list[Pool] = []
    unreadable: list[UnreadablePool] = []
    answer = await api.get(PATH)
    for raw in answer["items"]:
        try:
            pools.append(Pool.parse(raw))
        except ValidationError as error:
            if "deletionTimestamp" in raw["metadata"]:
                pools.append(Pool.parse(raw, _NO_SPEC))
            else:
                unreadable.append(_describe_unreadable(raw, error))
    return PoolList(int(answer["metadata"]["resourceVersion"]), tuple(pools), tuple(unreadable))


def _describe_unreadable(raw: Json, error: ValidationError) -> UnreadablePool:
    meta, (first, *_) = raw["metadata"], error.errors()
    where = ".".join(str(part) for part in first["loc"])
    return UnreadablePool(
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        status=_parse_status(raw),
        error=f"spec.{where}: {first['msg']}",
    )


def _parse_status(raw: Json) -> PoolStatus:
    try:
        return PoolStatus.model_validate(raw.get("status") or {})
    except ValidationError:
        return PoolStatus()


async def apply_finalizer(api: ApiServer, pool: Pool) -> None:
    """Add our finalizer; those of others stay."""
    body = _identify(pool)
    body["metadata"]["finalizers"] = [names.FINALIZER]
    await api.apply(f"{PATH}/{pool.name}", body)


async def drop_finalizer(api: ApiServer, pool: Pool) -> None:
    """Take our finalizer away, whoever put it there: a restored pool brings it along.

    An apply could only drop what it owns. Raises `ApiError`: a conflict or an invalid patch where
    the pool changed meanwhile.
    """
    try:
        raw = await api.get(f"{PATH}/{pool.name}")
    except ApiError as error:
        if error.is_not_found:
            return
        raise
    finalizers = raw["metadata"].get("finalizers") or []
    if raw["metadata"]["uid"] != pool.uid or names.FINALIZER not in finalizers:
        return
    path = f"/metadata/finalizers/{finalizers.index(names.FINALIZER)}"
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": pool.uid},
        {"op": "test", "path": path, "value": names.FINALIZER},
        {"op": "remove", "path": path},
    ]
    await api.patch(f"{PATH}/{pool.name}", patch, content_type=JSON_PATCH)


async def apply_status(api: ApiServer, pool: Pool | UnreadablePool, status: PoolStatus) -> None:
    """Write the whole status; what is left out is removed."""
    body = _identify(pool) | {
        "status": status.model_dump(mode="json", by_alias=True, exclude_none=True)
    }
    await api.apply(f"{PATH}/{pool.name}/status", body)


def _identify(pool: Pool | UnreadablePool) -> Json:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": pool.name, "uid": pool.uid},
    }
