"""Reads what the schedulers need to know of a pod to place it."""

from dataclasses import dataclass, field

from gpushare.api.k8s.gpu_request import NO_AMOUNTS, Amounts, count_host_amounts
from gpushare.api.k8s.pod_request import PodRequest, read_pod_request
from gpushare.api.k8s.pod_shape import PodShape, Spec
from gpushare.api.k8s.taint import Tolerations, parse_tolerations

UNSET = {"cpu": 100, "memory": 200 * 1024**2}
"""What kube-scheduler takes for a container without a request when it scores nodes
(`DefaultMilliCPURequest` and `DefaultMemoryRequest`, pkg/scheduler/util/pod_resources.go)."""


@dataclass(frozen=True, slots=True)
class PodInfo:
    """What the placement of a pod depends on, once admission has decided on it."""

    request: PodRequest
    tolerations: Tolerations = ()
    host: Amounts = field(default_factory=lambda: NO_AMOUNTS)
    """Requested CPU and memory, as `count_host_amounts` counts them."""
    scored: Amounts = field(default_factory=lambda: NO_AMOUNTS)
    """The same with the defaults by which nodes are scored."""


def read_pod_info(pod: PodShape) -> PodInfo:
    """Read a PodInfo from a pod that admission has written to."""
    spec = pod.spec or Spec()
    return PodInfo(
        read_pod_request(pod),
        parse_tolerations(spec.tolerations or ()),
        count_host_amounts(spec),
        count_host_amounts(spec, UNSET),
    )
