"""Writes what a user tells a rollout: to begin, now or within its windows, or to try again."""

from gpushare import names
from gpushare.kube.client import MERGE_PATCH, ApiClient, Json
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
        f"{POOLS}/{meta['name']}",
        body,
        manager=names.COMMAND_MANAGER,
        force=force,
        dry_run=dry_run,
    )


async def annotate(
    api: ApiClient, path: str, raw: Json, annotation: str, value: str, *, dry_run: bool
) -> Json:
    """Annotate an object, as it was read. Raises `ApiError`: a conflict where it changed.

    By a merge: with server-side apply a manager's fields are all that it applied last, so a retry
    would take back the agreement to a plan, and that the retry.
    """
    metadata = {
        "resourceVersion": raw["metadata"]["resourceVersion"],
        "annotations": {annotation: value},
    }
    params = {"fieldManager": names.COMMAND_MANAGER} | ({"dryRun": "All"} if dry_run else {})
    return await api.patch(path, {"metadata": metadata}, content_type=MERGE_PATCH, **params)
