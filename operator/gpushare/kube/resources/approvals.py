"""What a person writes: an agreement to a plan, and the wish that something is tried again."""

from gpushare import names
from gpushare.kube.client import MERGE_PATCH, ApiClient, Json
from gpushare.kube.resources.nodes import PATH as NODES
from gpushare.kube.resources.pools import PATH as POOLS


async def apply_approval(
    api: ApiClient, pool: Json, plan_hash: str, *, force: bool, dry_run: bool
) -> Json:
    """Write `rollout.approvedPlan` of the pool, as it was read.

    Raises `ApiError`: a conflict where it changed meanwhile, or where somebody else owns the field
    and there is no `force`.
    """
    meta = pool["metadata"]
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {key: meta[key] for key in ("name", "uid", "resourceVersion")},
        "spec": {"rollout": {"approvedPlan": plan_hash}},
    }
    return await api.apply(
        f"{POOLS}/{_name(pool)}",
        body,
        manager=names.COMMAND_MANAGER,
        force=force,
        dry_run=dry_run,
    )


async def apply_pool_retry(api: ApiClient, pool: Json, value: str, *, dry_run: bool) -> Json:
    """Annotate the pool, as it was read. Raises `ApiError`: a conflict where it changed."""
    return await _annotate(api, f"{POOLS}/{_name(pool)}", pool, value, dry_run=dry_run)


async def apply_node_retry(api: ApiClient, node: Json, value: str, *, dry_run: bool) -> Json:
    """Annotate the node, as it was read. Raises `ApiError`: a conflict where it changed."""
    return await _annotate(api, f"{NODES}/{_name(node)}", node, value, dry_run=dry_run)


async def _annotate(api: ApiClient, path: str, raw: Json, value: str, *, dry_run: bool) -> Json:
    """Write `gpushare.io/retry`.

    By a merge: with server-side apply a manager's fields are all that it applied last, so a retry
    would take back the agreement to a plan, and that the retry.
    """
    metadata = {
        "resourceVersion": raw["metadata"]["resourceVersion"],
        "annotations": {names.ANNOTATION_RETRY: value},
    }
    params = {"fieldManager": names.COMMAND_MANAGER} | ({"dryRun": "All"} if dry_run else {})
    return await api.patch(path, {"metadata": metadata}, content_type=MERGE_PATCH, **params)


def _name(raw: Json) -> str:
    name: str = raw["metadata"]["name"]
    return name
