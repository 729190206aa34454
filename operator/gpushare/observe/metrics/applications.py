"""Of each application: the GPU memory that its pods hold and ask for."""

from collections import Counter
from collections.abc import Container, Iterator

from prometheus_client.core import GaugeMetricFamily

from gpushare.api.pod import Pod
from gpushare.observe.metrics.family import Family
from gpushare.observe.metrics.sight import Sight, SightCollector

_LABELS = ("pool", "namespace", "kind", "workload")
_PODS = Family(
    "application_pods", "Pods of an application that ask for GPU memory and have a node.", _LABELS
)
_ALLOCATED = Family(
    "application_memory_allocated_bytes",
    "GPU memory that an application's pods hold, by the GPU scheduler's ledger.",
    _LABELS,
)
_REQUESTED = Family(
    "application_memory_requested_bytes",
    "GPU memory that an application's pods ask for, those included that have no node yet.",
    _LABELS,
)


class ApplicationCollector(SightCollector):
    """Three series for each workload that asks for GPU memory, in each pool where it runs."""

    families = (_PODS, _ALLOCATED, _REQUESTED)

    def measure(self, sight: Sight) -> Iterator[GaugeMetricFamily]:
        pools, units = sight.find_pools(), sight.find_units()
        known = {pool.name for pool in sight.pools}
        pods: Counter[tuple[str, ...]] = Counter()
        allocated: Counter[tuple[str, ...]] = Counter()
        requested: Counter[tuple[str, ...]] = Counter()
        for pod in sight.pods.values():
            if not pod.gpu_memory or not pod.is_live or pod.workload is None:
                continue
            pool = pools.get(pod.node, "") if pod.node else _find_pool(pod, known)
            key = (pool, pod.namespace, *pod.workload)
            unit = units.find_bytes(pod.node, pool)
            pods[key] += bool(pod.node)
            allocated[key] += sum(pod.cards.values()) * unit
            requested[key] += pod.gpu_memory * unit
        yield _PODS.fill(pods)
        yield _ALLOCATED.fill(allocated)
        yield _REQUESTED.fill(requested)


def _find_pool(pod: Pod, known: Container[str]) -> str:
    """The pool that a pod without a node waits for; none where it would take several, or names one
    that there is not: anybody can think of names."""
    return pod.pools[0] if len(pod.pools) == 1 and pod.pools[0] in known else ""
