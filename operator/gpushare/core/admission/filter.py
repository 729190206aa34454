"""Finds whether a pool can take a pod, and explains why not."""

from gpushare import names
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.api.pool import Schedule
from gpushare.api.selector import matches_selector
from gpushare.core.admission.node_match import explain_mismatch
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import AdmissionRequest
from gpushare.names import Reason


def find_rejection(request: AdmissionRequest, pool: PoolView | None) -> Reason | None:
    """Find why `pool` can't take the pod, even on request; None where it can."""
    if pool is None:
        return Reason.POOL_NOT_FOUND
    pod = request.pod
    if (misfit := find_misfit(pod, pool)) is not None:
        return misfit
    if pod.isolation == names.ISOLATION_NONE and pool.isolates:
        return Reason.ISOLATED
    if pool.namespace_selector is not None and not matches_selector(
        pool.namespace_selector, request.namespace.labels
    ):
        return Reason.NAMESPACE_NOT_SELECTED
    if pool.pod_selector is not None and not matches_selector(pool.pod_selector, pod.labels):
        return Reason.POD_NOT_SELECTED
    if pool.match(pod.selection) is False:
        return Reason.EXCLUDED_BY_POD
    return None


def find_misfit(pod: PodRequest, pool: PoolView) -> Reason | None:
    """Find why `pod` could not run as it requests on the nodes of `pool`; None where it could."""
    if pool.closed is not None:
        return pool.closed
    if pod.asked not in pool.serves:
        return Reason.OTHER_MODE
    if not pool.isolates_by_kernel and pod.asks_for_share and pod.requires_isolation:
        return Reason.NOT_ISOLATED
    return None


def find_selected_misfit(pod: PodRequest, pool: PoolView) -> Reason | None:
    """Find why `pod`, which selects the labels of `pool`, could not run there as it requests."""
    if pool.match(pod.selection) is False:
        return Reason.EXCLUDED_BY_POD
    return find_misfit(pod, pool)


def explain_rejection(
    reason: Reason | None, request: AdmissionRequest, pool: PoolView | None
) -> str:
    """Explain why `pool` can't take the pod, in a clause that follows "Pool X: "."""
    if pool is None:
        return "it does not exist"
    mode = f"mode {pool.schedule}"
    match reason:
        case Reason.POOL_DELETING:
            return "it is being deleted"
        case Reason.POOL_OBSERVES:
            return "reconcile is Observe, so its nodes don't have its labels"
        case Reason.OTHER_MODE:
            if missing := request.pod.asked - pool.offers:
                return f"{mode} does not offer {' and '.join(sorted(missing))}"
            return f"{mode} requires {names.RESOURCE_GPU_CORE}"
        case Reason.NOT_ISOLATED if pool.schedule is Schedule.MPS:
            return f"{mode} isolates only with cGPU, and nodes don't show whether they have it"
        case Reason.NOT_ISOLATED:
            return f"{mode} does not isolate in the kernel"
        case Reason.ISOLATED:
            return f"{mode} isolates, but the pod's {names.ANNOTATION_ISOLATION} is none"
        case Reason.NAMESPACE_NOT_SELECTED:
            return f"its namespaceSelector does not select namespace {request.namespace.name}"
        case Reason.POD_NOT_SELECTED:
            return "its podSelector does not select the pod"
        case Reason.ON_REQUEST_ONLY:
            return f"it accepts only pods that request it by the annotation {names.ANNOTATION_POOL}"
        case _:
            return explain_mismatch(request.pod.selection, pool)
