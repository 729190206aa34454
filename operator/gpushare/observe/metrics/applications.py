"""Reports the GPU memory that is allocated to and requested by each application's pods."""

from collections.abc import Callable, Container, Iterator
from typing import TypeVar

from gpushare.api.k8s.pod import Pod
from gpushare.observe.metrics.family import Family

Key = TypeVar("Key")

_LABELS = ("pool", "namespace", "kind", "workload")
_PODS = Family(
    "application_pods", "Pods of an application that request GPU memory and have a node.", _LABELS
)
_ALLOCATED = Family(
    "application_memory_allocated_bytes",
    "GPU memory allocated to an application's pods, by the GPU scheduler's ledger.",
    _LABELS,
)
_REQUESTED = Family(
    "application_memory_requested_bytes",
    "GPU memory requested by an application's pods, including pods without a node.",
    _LABELS,
)

Place = tuple[str, str]
"""A pool and its device plugin's unit; empty where there is none, or it is unknown."""
NOWHERE: Place = ("", "")
_Sums = tuple[int, int, int]
"""Number of pods, their allocated and their requested memory in the plugin's unit."""
_ByApplication = dict[str, _Sums]
"""Sums by the application's labels, as text."""


class ApplicationFigures:
    """Three series for each workload that requests GPU memory, in each pool where it runs."""

    families = (_PODS, _ALLOCATED, _REQUESTED)

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        """Pool and unit by node, of nodes in a pool."""
        self._on_node: dict[str, _ByApplication] = {}
        self._bound: dict[Place, _ByApplication] = {}
        self._waiting: dict[Place, _ByApplication] = {}
        """Sums by the one pool that the pods select; `NOWHERE` for none, or several."""

    def count(self, pod: Pod, times: int) -> None:
        """Add a live pod that requests GPU memory, or with -1 remove it."""
        if pod.workload is None:
            return
        kind, name = pod.workload
        application = f'namespace="{pod.namespace}",kind="{kind}",workload="{name}"'
        sums = (times, sum(pod.cards.values()) * times, pod.gpu_memory * times)
        if pod.node:
            _add(self._on_node, pod.node, application, sums)
            _add(self._bound, self._places.get(pod.node, NOWHERE), application, sums)
        else:
            wanted = (pod.pools[0], "") if len(pod.pools) == 1 else NOWHERE
            _add(self._waiting, wanted, application, sums)

    def place(self, node: str, place: Place) -> None:
        """Count the pods of a node in its current pool."""
        old = self._places.pop(node, NOWHERE)
        if place != NOWHERE:
            self._places[node] = place
        if place == old:
            return
        for application, (pods, allocated, requested) in self._on_node.get(node, {}).items():
            _add(self._bound, old, application, (-pods, -allocated, -requested))
            _add(self._bound, place, application, (pods, allocated, requested))

    def write(self, known: Container[str], find_bytes: Callable[[str, str], int]) -> Iterator[str]:
        """Write the metrics as text; `known` are the existing pools."""
        totals: dict[str, _Sums] = {}
        for groups, counts in ((self._bound, True), (self._waiting, False)):
            for (selected, unit), group in groups.items():
                # A pod may select any name.
                pool = selected if selected in known else ""
                size = find_bytes(pool, unit)
                for application, (pods, allocated, requested) in group.items():
                    labels = f'{{pool="{pool}",{application}}}'
                    more = (pods if counts else 0, allocated * size, requested * size)
                    if (sums := totals.get(labels)) is not None:
                        more = (sums[0] + more[0], sums[1] + more[1], sums[2] + more[2])
                    totals[labels] = more
        for index, family in enumerate(self.families):
            name = family.full_name
            yield family.head
            yield "".join([f"{name}{labels} {sums[index]}\n" for labels, sums in totals.items()])


def _add(groups: dict[Key, _ByApplication], key: Key, application: str, more: _Sums) -> None:
    group = groups.setdefault(key, {})
    pods, allocated, requested = group.get(application, (0, 0, 0))
    if pods + more[0]:
        group[application] = (pods + more[0], allocated + more[1], requested + more[2])
        return
    del group[application]
    if not group:
        del groups[key]
