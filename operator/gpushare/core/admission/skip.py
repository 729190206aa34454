"""Pods that admission leaves as they are, and what it says to who created them."""

from gpushare import names
from gpushare.api.k8s.pod_request import Placer, PodRequest
from gpushare.core.admission.decision import MAX_MESSAGE, Decision, build_annotation, cut
from gpushare.names import Reason

_PLACER_ADVICE = {
    Placer.DAEMONSET: f"select a pool by {names.LABEL_POOL} in its template's nodeSelector",
    Placer.NODE_NAME: "the scheduler then keeps no card for it; leave nodeName out",
    Placer.NODE_SELECTION: f"to have a pool chosen, leave that out, or select {names.LABEL_POOL}",
    Placer.KUEUE: f"give the queue's ResourceFlavor the node label {names.LABEL_POOL}",
}


def skip(reason: Reason, message: str) -> Decision:
    """Created as it is, with a warning."""
    return Decision(
        reason,
        cut(message, MAX_MESSAGE),
        annotation=build_annotation(reason),
        warnings=(cut(f"not sent to a pool: {message}"),),
    )


def skip_without_request(pod: PodRequest) -> Decision:
    """It asks for no GPU that admission deals with."""
    if pod.uses_gpu_unasked:
        message = (
            "a container sets a GPU variable, and the pod asks for no GPU: on a shared node it "
            f"sees every card, uncounted. Ask for {names.RESOURCE_GPU_MEMORY}, or set "
            f"{names.ENV_VISIBLE_DEVICES}=none"
        )
        return Decision(Reason.UNACCOUNTED_GPU, message, warnings=(cut(message),))
    message = "asks for no shared GPU"
    if not pod.pool:
        return Decision(Reason.NO_GPU_REQUEST, message)
    warning = (
        f"annotation {names.ANNOTATION_POOL} does nothing: the pod asks for no GPU that a pool "
        f"gives; ask for {names.RESOURCE_GPU_MEMORY}"
    )
    return Decision(Reason.NO_GPU_REQUEST, message, warnings=(warning,))


def skip_for_placer(pod: PodRequest, placer: Placer) -> Decision:
    """Somebody else says where it runs; without a warning where that one selects by our labels."""
    message = f"{placer} decides where it runs"
    if placer is not Placer.NODE_NAME and pod.selection.chosen_keys:
        return _skip_quietly(Reason.NOT_ROUTED, message)
    return skip(Reason.NOT_ROUTED, f"{message}; {_PLACER_ADVICE[placer]}")


def skip_for_scheduler(pod: PodRequest) -> Decision:
    """Another scheduler chooses its node; without a warning where the pod says among which."""
    message = f"its scheduler is {pod.scheduler}, which is left to choose"
    if pod.selection.chosen_keys:
        return _skip_quietly(Reason.OTHER_SCHEDULER, message)
    return skip(
        Reason.OTHER_SCHEDULER,
        f"{message}; if that one gives out GPU memory card by card, name it in the installation's "
        "schedulers",
    )


def _skip_quietly(reason: Reason, message: str) -> Decision:
    return Decision(reason, cut(message, MAX_MESSAGE), annotation=build_annotation(reason))
