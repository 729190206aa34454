"""Finds the pods that wait for room in a pool, and since when."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from gpushare.api.k8s.pod import SCHEDULER_ERROR, Pod
from gpushare.api.k8s.pod_request import PodInfo, encode_info
from gpushare.core.sizing.moves import WaitingPods

_MOST_KINDS = 10
"""Different pods of one pool that are looked at, those that wait longest."""


class WaitingTimes:
    """Since when pods wait for room; of those that waited before it is built, since then."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[datetime, bytes]] = {}
        """By UID, since when a pod waits, and its kind."""
        self.infos: dict[bytes, PodInfo] = {}
        """What the schedulers need to know of the pods, by kind."""

    def update(
        self, pods: Iterable[Pod], members: Mapping[str, int], now: datetime
    ) -> dict[str, tuple[WaitingPods, ...]]:
        """Return the pods that wait for room in each pool, by pool; alike pods together.

        `members` is the number of nodes of each pool that nodes may move to.
        """
        known, self._seen, self.infos = self._seen, {}, {}
        alike: defaultdict[tuple[str, bytes], list[Pod]] = defaultdict(list)
        for pod in pods:
            pool = pod.pools[0] if len(pod.pools) == 1 else ""
            if pod.info is None or pool not in members:
                continue
            if lacks_room(pod, has_nodes=members[pool] > 0):
                seen = known.get(pod.uid) or (now, encode_info(pod.info))
                self._seen[pod.uid] = seen
                self.infos[seen[1]] = pod.info
                alike[pool, seen[1]].append(pod)
        found: defaultdict[str, list[WaitingPods]] = defaultdict(list)
        for (pool, kind), group in alike.items():
            since, first = min(
                (self._seen[pod.uid][0], f"{pod.namespace}/{pod.name}") for pod in group
            )
            found[pool].append(WaitingPods(kind, first, since, len(group)))
        return {
            pool: tuple(sorted(kinds, key=lambda each: (each.since, each.first))[:_MOST_KINDS])
            for pool, kinds in found.items()
        }


def lacks_room(pod: Pod, *, has_nodes: bool) -> bool:
    """Return whether the scheduler has said that `pod` lacks a GPU in its pool.

    Of a pool without nodes it only says that no node has the labels that the pod selects.
    """
    if pod.node or not pod.is_live or pod.unscheduled[0] == SCHEDULER_ERROR:
        return False
    if pod.gates or pod.deleting or not pod.unschedulable:
        return False
    if not has_nodes:
        return bool(pod.requests)
    return bool(pod.lacks_gpu) or any(
        f"Insufficient {resource}" in pod.unschedulable for resource in pod.requests
    )
