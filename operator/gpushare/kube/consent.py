"""What a person writes: an agreement to a plan, and the wish that something is tried again."""

from gpushare import names
from gpushare.kube.client import ApiServer, Json
from gpushare.kube.nodes import PATH as NODES
from gpushare.kube.pools import PATH as POOLS


async def apply_approval(
    api: ApiServer, pool: Json, plan_hash: str, *, force: bool, dry_run: bool
) -> Json:
    """Write `rollout.approvedPlan` of the pool, as it was read.

    Raises `ApiError`: a conflict where it changed meanwhile, or where somebody else owns the field
    and there is no `force`.
    """
    body = _identify(pool, names.API_VERSION, names.KIND)
    body["spec"] = {"rollout": {"approvedPlan": plan_hash}}
    return await _apply(api, f"{POOLS}/{_name(pool)}", body, force=force, dry_run=dry_run)


async def apply_pool_retry(api: ApiServer, pool: Json, value: str, *, dry_run: bool) -> Json:
    """Annotate the pool, as it was read. Raises `ApiError`: a conflict where it changed."""
    body = _identify(pool, names.API_VERSION, names.KIND)
    body["metadata"]["annotations"] = {names.ANNOTATION_RETRY: value}
    return await _apply(api, f"{POOLS}/{_name(pool)}", body, force=True, dry_run=dry_run)


async def apply_node_retry(api: ApiServer, node: Json, value: str, *, dry_run: bool) -> Json:
    """Annotate the node, as it was read. Raises `ApiError`: a conflict where it changed."""
    body = _identify(node, "v1", "Node")
    body["metadata"]["annotations"] = {names.ANNOTATION_RETRY: value}
    return await _apply(api, f"{NODES}/{_name(node)}", body, force=True, dry_run=dry_run)


async def _apply(api: ApiServer, path: str, body: Json, *, force: bool, dry_run: bool) -> Json:
    return await api.apply(path, body, manager=names.COMMAND_MANAGER, force=force, dry_run=dry_run)


def _name(raw: Json) -> str:
    name: str = raw["metadata"]["name"]
    return name


def _identify(raw: Json, api_version: str, kind: str) -> Json:
    meta = raw["metadata"]
    kept = {key: meta[key] for key in ("name", "uid", "resourceVersion")}
    return {"apiVersion": api_version, "kind": kind, "metadata": kept}
