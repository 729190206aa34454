"""Tells of GPU pods that no pool got, or that have no node: by a metric, and an Event on each."""

import time
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime

from gpushare.api.namespace import Namespace
from gpushare.api.pod import Pod
from gpushare.core.actions import NodeState
from gpushare.core.capacity import sum_capacity
from gpushare.core.plan import Planner
from gpushare.core.unplaced import PoolRoom, UnplacedPod, judge_pod
from gpushare.kube.events import Events, Subject
from gpushare.names import Reason
from gpushare.observe.metrics import Metrics

PERIOD_SECONDS = 5.0
EVENTS_AT_ONCE = 50
"""A thousand pods that wait must not become a thousand writes in one moment."""


class UnplacedPods:
    """Judges the pods without a place, every few seconds where there are any."""

    def __init__(
        self,
        events: Events,
        planner: Planner,
        namespaces: Mapping[str, Namespace],
        metrics: Metrics,
    ):
        self._events = events
        self._planner = planner
        self._namespaces = namespaces
        self._metrics = metrics
        self._not_before = 0.0
        self._told: set[tuple[str, Reason]] = set()
        self._shown: set[Reason] = set()

    def report(
        self,
        pods: Mapping[str, Pod],
        pools: Collection[str],
        unreadable: Collection[str],
        now: datetime,
    ) -> float | None:
        """Report what is new; seconds until the next look, where there are such pods.

        `pools` are the names of those that there are, `unreadable` of those besides whose spec
        can't be read.
        """
        if not pods and not self._shown:
            return None
        wait = self._not_before - time.monotonic()
        if wait > 0:
            return wait
        self._not_before = time.monotonic() + PERIOD_SECONDS
        rooms = {**self._observe_rooms(pools), **dict.fromkeys(unreadable)}
        judged = (
            judge_pod(pod, rooms, now, opted_out=self._opts_out(pod)) for pod in pods.values()
        )
        found = [pod for pod in judged if pod is not None]
        self._show(found)
        # A Deployment's pods are all alike: one of them is told.
        first: dict[tuple[str, Reason], UnplacedPod] = {}
        for pod in sorted(found, key=lambda pod: (pod.namespace, pod.name)):
            first.setdefault((pod.owner, pod.reason), pod)
        self._told &= first.keys()
        for key in [key for key in first if key not in self._told][:EVENTS_AT_ONCE]:
            self._tell(first[key])
        return PERIOD_SECONDS if pods else None

    def _observe_rooms(self, pools: Collection[str]) -> dict[str, PoolRoom | None]:
        books = {name: self._planner.books[name] for name in pools}
        return {
            name: PoolRoom(
                nodes=len(book.capacities),
                ready=book.counts[NodeState.READY],
                capacity=sum_capacity(book.capacities.values()),
            )
            for name, book in books.items()
        }

    def _opts_out(self, pod: Pod) -> bool:
        namespace = self._namespaces.get(pod.namespace)
        return namespace is not None and namespace.opts_out

    def _show(self, found: list[UnplacedPod]) -> None:
        counts = Counter(pod.reason for pod in found)
        for reason in self._shown | counts.keys():
            self._metrics.unplaced_pods.labels(reason).set(counts[reason])
        self._shown = set(counts)

    def _tell(self, pod: UnplacedPod) -> None:
        self._told.add((pod.owner, pod.reason))
        subject = Subject("v1", "Pod", pod.name, pod.uid, pod.namespace)
        self._events.post(subject, pod.reason, pod.message, warns=True, once=True)
