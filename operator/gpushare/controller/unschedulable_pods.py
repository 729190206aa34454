"""Finds GPU pods that have no pool or no node, and posts an Event for each."""

import logging
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod import Pod
from gpushare.core.planner.planner import Planner
from gpushare.core.status.event_correlation import ONCE_SECONDS
from gpushare.core.status.unschedulable_pods import UnschedulablePod, find_room, judge_pod
from gpushare.kube.events import Events, ObjectReference
from gpushare.names import Reason

log = logging.getLogger(__name__)

PERIOD_SECONDS = 5.0
STALE_SECONDS = 60.0
"""The scheduler tries again 10 s after a pod has gone. Until then its message is of before."""
EVENTS_AT_ONCE = 50
"""A thousand pods that wait must not become a thousand writes in one moment."""


class UnschedulablePods:
    """Judges the pods without a place, every few seconds where there are any."""

    def __init__(self, events: Events, planner: Planner, namespaces: Mapping[str, Namespace]):
        self._events = events
        self._planner = planner
        self._namespaces = namespaces
        self.found: tuple[UnschedulablePod, ...] = ()
        """Unschedulable pods that the last pass found."""
        self._not_before = 0.0
        self._told: dict[tuple[str, str], float] = {}
        """Time of the last Event, by pod and reason."""
        self._stale_since: dict[str, float] = {}
        """Time since when the extender refuses a pod although there is room, by UID."""

    def report(
        self,
        pods: Mapping[str, Pod],
        pools: Collection[str],
        unreadable: Collection[str],
        now: datetime,
    ) -> float | None:
        """Report what is new; return the seconds until the next look, where there are such pods.

        `pools` are the names of those that there are, `unreadable` of those besides whose spec
        can't be read.
        """
        if not pods and not self.found:
            return None
        wait = self._not_before - time.monotonic()
        if wait > 0:
            return wait
        self._not_before = time.monotonic() + PERIOD_SECONDS
        rooms = {
            **{name: find_room(self._planner.plans_by_pool[name], now) for name in pools},
            **dict.fromkeys(unreadable),
        }
        context = (
            judge_pod(pod, rooms, now, opted_out=self._opts_out(pod)) for pod in pods.values()
        )
        self.found = tuple(self._doubt_recent(pod for pod in context if pod is not None))
        # A Deployment's pods are all alike: one of them is told.
        first: dict[tuple[str, str], UnschedulablePod] = {}
        for each in sorted(self.found, key=lambda each: (each.pod.namespace, each.pod.name)):
            first.setdefault((each.pod.owner or each.pod.uid, each.reason), each)
        now_seconds = time.monotonic()
        self._told = {key: at for key, at in self._told.items() if key in first}
        old = now_seconds - ONCE_SECONDS
        due = [key for key in first if self._told.get(key, -math.inf) <= old]
        for key in due[:EVENTS_AT_ONCE]:
            self._tell(first[key], is_new=key not in self._told)
            self._told[key] = now_seconds
        return PERIOD_SECONDS if pods else None

    def list_those_in(self, pods: Mapping[str, Pod]) -> list[UnschedulablePod]:
        """List what the last look found, without pods that have since been placed or deleted."""
        return [
            found
            for found in self.found
            if (pod := pods.get(f"{found.pod.namespace}/{found.pod.name}")) is not None
            and pod.uid == found.pod.uid
            and not pod.deleting
        ]

    def _doubt_recent(self, context: Iterable[UnschedulablePod]) -> Iterator[UnschedulablePod]:
        """Delay `ExtenderStale`, whose message may date from before the last change: until that is
        sure, yield what was found of the pod before, if anything."""
        now, before = time.monotonic(), self._stale_since
        found = {each.pod.uid: each for each in self.found}
        self._stale_since = {}
        for each in context:
            if each.reason == Reason.EXTENDER_STALE:
                uid = each.pod.uid
                since = self._stale_since[uid] = before.get(uid, now)
                if now - since < STALE_SECONDS:
                    if uid in found:
                        yield found[uid]
                    continue
            yield each

    def _opts_out(self, pod: Pod) -> bool:
        namespace = self._namespaces.get(pod.namespace)
        return namespace is not None and namespace.opts_out

    def _tell(self, found: UnschedulablePod, *, is_new: bool) -> None:
        pod = found.pod
        subject = ObjectReference("v1", "Pod", pod.name, pod.uid, pod.namespace)
        self._events.post(subject, Reason(found.reason), found.message, warns=True, once=True)
        keys = {"namespace": pod.namespace, "pod": pod.name, "reason": found.reason}
        if is_new:
            log.info("%s", found.message, extra=keys)
