"""Lists the pods of a node from the API server, and deletes or evicts single pods."""

from collections.abc import Callable

from gpushare.api.k8s.pod import Pod
from gpushare.core.snapshot.actions import NamedPod
from gpushare.kube.client import ApiClient, Json
from gpushare.kube.errors import ApiError, EvictionRefusedError

PATH = "api/v1/pods"


async def list_pods_on_node(
    api: ApiClient, node: str, parse: Callable[[Json], Pod | None]
) -> tuple[Pod, ...]:
    """List the pods bound to `node` that `parse` keeps, as the API server has them now.

    Without a resourceVersion the answer is up to date, not from a cache.
    """
    answer = await api.get(PATH, fieldSelector=f"spec.nodeName={node}")
    return tuple(pod for raw in answer["items"] if (pod := parse(raw)) is not None)


async def delete_plugin(api: ApiClient, plugin: NamedPod) -> Json:
    """Delete the pod with this UID; a later pod of the same name stays.

    Raises `ApiError`: not found or conflict mean that the pod is gone already.
    """
    return await api.delete(
        f"api/v1/namespaces/{plugin.namespace}/pods/{plugin.name}", uid=plugin.uid
    )


async def evict_pod(api: ApiClient, pod: NamedPod) -> bool:
    """Evict the pod with this UID, as `kubectl drain` would; return False where it is gone.

    Raises `EvictionRefusedError` where a PodDisruptionBudget, a policy or a missing right keeps
    the pod, and `ApiError` where the call failed for another reason.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    path = f"api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
    try:
        await api.create(path, body)
    except ApiError as error:
        # A later pod of the same name is a conflict.
        if error.is_not_found or error.is_conflict:
            return False
        if (why := error.keeps_pod) is None:
            raise
        raise EvictionRefusedError(f"the eviction of pod {pod} was refused: {why}") from error
    return True
