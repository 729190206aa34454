"""Jobs of teardowns, in their namespace."""

from gpushare.kube.client import ApiClient, Json
from gpushare.kube.errors import ApiError


def jobs_path(namespace: str) -> str:
    """Return the path of the Jobs in `namespace`."""
    return f"apis/batch/v1/namespaces/{namespace}/jobs"


async def create_job(api: ApiClient, manifest: Json) -> tuple[Json, bool]:
    """Create a Job; return the current Job, and whether it is new. Raises `ApiError`.

    An existing Job may be of a process that ended before it recorded it.
    """
    path = jobs_path(manifest["metadata"]["namespace"])
    try:
        return await api.create(path, manifest), True
    except ApiError as error:
        if not error.is_conflict:
            raise
    return await api.get(f"{path}/{manifest['metadata']['name']}"), False
