"""Answers what would run: on the pools of today, and on others beside it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Any

from gpushare.analysis.explain.admitted_pod import rewind
from gpushare.analysis.forecast.pools import PoolForecast, forecast_pools
from gpushare.analysis.placement.cluster import PlacementCluster, build_cluster, find_members
from gpushare.analysis.placement.place import (
    PlacementResult,
    PodOrigin,
    QueuedPod,
    place_likely,
    place_pods,
)
from gpushare.analysis.placement.split import roll_out
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import PodInfo, read_pod_info
from gpushare.api.k8s.pod_shape import PodShape, parse_pod_shape
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.settings import Settings


@dataclass(frozen=True)
class Observed:
    """A cluster as it is, with the pods that need a node."""

    snapshot: ClusterSnapshot
    shapes: Mapping[str, PodShape]
    """The shape of each pod, by UID."""
    unbound: tuple[Pod, ...]
    namespaces: tuple[Namespace, ...]
    setup: Settings
    now: datetime

    @cached_property
    def bound(self) -> tuple[Pod, ...]:
        """The pods that have a node, oldest first."""
        return tuple(sorted(chain(*self.snapshot.pods.values()), key=_sort_by_age))

    @cached_property
    def infos(self) -> Mapping[str, PodInfo]:
        """What the placement of the bound pods depended on, by UID."""
        shapes = ((pod.uid, self.shapes.get(pod.uid)) for pod in self.bound)
        return {uid: read_pod_info(shape) for uid, shape in shapes if shape is not None}

    def build(self, snapshot: ClusterSnapshot, members: Mapping[str, str]) -> PlacementCluster:
        """Build the cluster of `snapshot`, whose pools have the nodes that `members` says."""
        return build_cluster(snapshot, members, self.namespaces, self.infos, self.setup, self.now)

    def build_now(self) -> PlacementCluster:
        """Build the cluster as it is."""
        return self.build(self.snapshot, find_members(self.snapshot))


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What a queue gets on the pools of today, and on other pools."""

    before: PlacementResult
    """The pools of today without the queue."""
    today: PlacementResult
    """The pools of today with the queue."""
    split: PlacementResult | None = None
    """Other pools with the queue and the pods that they displace; None without other pools."""
    forecasts: tuple[PoolForecast, ...] = ()
    """What the other pools change."""
    unknown: tuple[str, ...] = ()
    """Nodes of which it is unknown what they will offer."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Waiting pods that are not in the queue, by the reason."""


def ask_what_if(
    seen: Observed, new: Sequence[QueuedPod], pools: ClusterSnapshot | None, asked: Collection[str]
) -> WhatIf:
    """Place what waits, and then the `new` pods; `pools` is the snapshot with other pools, of which
    those `asked` are new or changed."""
    waiting, left_out = list_waiting(seen)
    queue = [*waiting, *new]
    now = seen.build_now()
    before, today = place_pods(now, []), place_likely(now, queue)
    if pools is None:
        return WhatIf(before, today, left_out=left_out)
    forecasts = forecast_pools(pools, asked, seen.setup, seen.now)
    members = find_members(pools)
    split = roll_out(pools, members, seen.setup.memory_unit)
    running = queue_running(seen, now).items()
    moved = [pod for uid, pod in running if uid in split.displaced]
    placed = place_likely(seen.build(split.snapshot, members), [*moved, *queue])
    return WhatIf(before, today, placed, forecasts, split.unknown, left_out)


def list_waiting(seen: Observed) -> tuple[list[QueuedPod], dict[str, int]]:
    """List the pods that a scheduler may place now, oldest first; count the others."""
    left_out: dict[str, int] = {}
    queue = []
    for pod in sorted(seen.unbound, key=_sort_by_age):
        shape = seen.shapes.get(pod.uid)
        if shape is None or not pod.requests or not pod.is_live:
            continue
        scheduler = (shape.spec and shape.spec.scheduler_name) or ""
        if pod.gates or pod.deleting:
            why = "scheduling gates hold them back" if pod.gates else "they are being deleted"
        elif scheduler and scheduler not in seen.setup.schedulers:
            why = f"scheduler {scheduler} chooses their nodes"
        else:
            queue.append(_queue(pod, shape, PodOrigin.WAITING))
            continue
        left_out[why] = left_out.get(why, 0) + 1
    return queue, left_out


def queue_running(seen: Observed, now: PlacementCluster) -> dict[str, QueuedPod]:
    """Queue the pods that run and request GPUs, as their owners wrote them; oldest first, by UID.

    Pods that are being deleted are not created again.
    """
    views = [pool.view for pool in now.pools]
    return {
        pod.uid: _queue(pod, rewind(seen.shapes[pod.uid], views), PodOrigin.DISPLACED)
        for pod in seen.bound
        if pod.requests and not pod.deleting and pod.uid in seen.shapes
    }


def _queue(pod: Pod, shape: PodShape, origin: PodOrigin) -> QueuedPod:
    return QueuedPod(pod.namespace, pod.name, shape, origin, bool(pod.owner))


def _sort_by_age(pod: Pod) -> tuple[str, str, str]:
    return pod.created.isoformat() if pod.created else "", pod.namespace, pod.name


def read_shapes(pods: Iterable[Mapping[str, Any]]) -> dict[str, PodShape]:
    """Read the shapes of pods from the API server's JSON, by UID."""
    return {raw["metadata"]["uid"]: parse_pod_shape(raw) for raw in pods}
