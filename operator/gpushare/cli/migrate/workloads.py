"""Reads the workloads, quotas and limits in a cluster, as the API server has them."""

from collections.abc import AsyncIterator, Callable
from urllib.parse import quote

from gpushare.kube.client import ApiClient, Json, list_pages

WORKLOADS = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "Pod"),
)
LIMITS = (("v1", "ResourceQuota"), ("v1", "LimitRange"))


async def list_workloads(
    api: ApiClient, namespace: str | None, selector: str, is_wanted: Callable[[Json], bool]
) -> tuple[Json, ...]:
    """List workloads with these labels, and all quotas and limits; None: in all namespaces.

    What is not wanted is not held: most pods are made by workloads. Raises what a call may raise.
    """
    params = {"labelSelector": selector} if selector else {}
    found = []
    for version, kind in WORKLOADS:
        found += [
            each async for each in _list(api, version, kind, namespace, params) if is_wanted(each)
        ]
    for version, kind in LIMITS:
        found += [each async for each in _list(api, version, kind, namespace, {})]
    return tuple(found)


async def _list(
    api: ApiClient, version: str, kind: str, namespace: str | None, params: dict[str, str]
) -> AsyncIterator[Json]:
    group = f"apis/{version}" if "/" in version else f"api/{version}"
    within = "" if namespace is None else f"namespaces/{quote(namespace, safe='')}/"
    async for page in list_pages(api, f"{group}/{within}{kind.lower()}s", **params):
        for item in page.items:
            # The items of a list don't say what they are.
            yield {"apiVersion": version, "kind": kind, **item}
