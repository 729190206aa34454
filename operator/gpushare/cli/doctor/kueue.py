"""Reads Kueue's objects in a cluster that has them."""

from collections.abc import Iterable

from gpushare import names
from gpushare.analysis.finding import Unseen
from gpushare.analysis.kueue.objects import VERSION, KueueObjects, parse_kueue
from gpushare.kube.client import ApiClient, Json, list_pages
from gpushare.kube.errors import CALL_FAILURES, ApiError, describe_failure


async def read_kueue(api: ApiClient, namespaces: Iterable[Json]) -> KueueObjects | Unseen | None:
    """Read Kueue's objects; None in a cluster without Kueue.

    Whatever keeps them from being read is told, and ends nothing else: Kueue converts some by a
    webhook, which may be down.
    """
    group = f"apis/{names.KUEUE_GROUP}"
    try:
        if (served := await api.find(group)) is None:
            return None
        versions = [each["version"] for each in served.get("versions") or ()]
        if VERSION not in versions:
            why = f"The cluster serves {names.KUEUE_GROUP} in version {', '.join(versions)}"
            return Unseen(f"{why}, but this program reads {VERSION}")
        version = f"{group}/{VERSION}"
        return parse_kueue(
            flavors=await _list(api, f"{version}/resourceflavors"),
            cluster_queues=await _list(api, f"{version}/clusterqueues"),
            cohorts=await _list(api, f"{version}/cohorts"),
            local_queues=await _list(api, f"{version}/localqueues"),
            namespaces=namespaces,
        )
    except CALL_FAILURES as error:
        is_refused = isinstance(error, ApiError) and error.status == 403
        why = "a right is missing" if is_refused else "Kueue's objects can't be read"
        told = error.message if isinstance(error, ApiError) else describe_failure(error)
        return Unseen(f"{why}: {told}")


async def _list(api: ApiClient, path: str) -> list[Json]:
    return [item async for page in list_pages(api, path) for item in page.items]
