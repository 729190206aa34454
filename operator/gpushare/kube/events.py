"""Posts Events about what happened to an object, which `kubectl describe` shows."""

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from gpushare import names
from gpushare.core.message import cut
from gpushare.core.status.event_correlation import WORDED_BY_TENANTS, EventCorrelator, Key, Series
from gpushare.kube.client import MERGE_PATCH, ApiClient, Json
from gpushare.kube.errors import CALL_FAILURES, ApiError, NotLeaderError, describe_failure
from gpushare.names import Reason

log = logging.getLogger(__name__)

NAMESPACE = "default"
"""Namespace of Events about cluster-scoped objects."""
MAX_NOTE = 1024
"""Limit of a note in bytes."""
MAX_NAME = 236
AT_ONCE = 4
"""Limit of parallel calls, so that Events do not hold up other writes."""
MAX_WAITING = 1000
COUNT_SECONDS = 10.0
"""Time between two updates of an Event's count."""


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object that an Event is about."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""
    """Empty for a cluster-scoped object."""


class Events:
    """Posts Events in the background.

    Best effort: a status or the log has an Event's content too, and nothing waits for it. Callers
    post where something changed. An Event that repeats within two minutes is counted on the
    existing one, and an object with too many Events gets fewer
    (`core/status/event_correlation.py`).
    """

    def __init__(self, api: ApiClient, instance: str, clock: Callable[[], float] = time.monotonic):
        self._api = api
        self._instance = instance
        self._clock = clock
        self._correlator = EventCorrelator()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(AT_ONCE)

    def post(
        self,
        subject: ObjectReference,
        reason: Reason,
        note: str,
        *,
        warns: bool = False,
        once: bool = False,
        occasion: str = "",
    ) -> None:
        """Post one Event.

        With `once`, a reason is posted for an object a single time (for each `occasion`, if given)
        for as long as the API server keeps Events, also by a restarted process.
        """
        text = "" if reason in WORDED_BY_TENANTS else note
        if once:
            text = f"{reason}{occasion}"
        key = Key(subject.uid, reason, text)
        series = self._correlator.admit(key, self._clock(), once=once)
        if series is None:
            log.debug("Event %s not posted: too many about %s", reason, subject.name)
            return
        if once:
            series.count = series.shown
        if series.is_busy or (once and series.path):
            return
        if len(self._tasks) >= MAX_WAITING:
            log.warning("Event %s not posted: too many Events are waiting", reason)
            self._correlator.forget(key)
            return
        unique = f"{subject.uid}/{text}" if once else uuid.uuid4().hex
        kind = "Warning" if warns else "Normal"
        body = _build_event(
            subject, reason, note, instance=self._instance, kind=kind, unique=unique
        )
        series.is_busy = True
        task = asyncio.create_task(self._publish(key, series, body), name=f"Event {reason}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Drop the Events that have not been posted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _publish(self, key: Key, series: Series, body: Json) -> None:
        """Create the Event unless it exists, and update its count for as long as it repeats."""
        try:
            if not series.path:
                series.path = await self._create(body)
            while series.count > series.shown:
                await self._count(series)
                await asyncio.sleep(COUNT_SECONDS)
        except (*CALL_FAILURES, NotLeaderError) as error:
            log.warning("Event %s not posted: %s", key.reason, describe_failure(error))
            self._correlator.forget(key)
        finally:
            series.is_busy = False

    async def _create(self, body: Json) -> str:
        metadata = body["metadata"]
        path = f"apis/events.k8s.io/v1/namespaces/{metadata['namespace']}/events"
        async with self._turns:
            try:
                await self._api.create(path, body)
            except ApiError as error:
                # Created by a process that ended; no two have the same name by chance.
                if not error.is_conflict:
                    raise
        return f"{path}/{metadata['name']}"

    async def _count(self, series: Series) -> None:
        count = series.count
        body = {"series": {"count": count, "lastObservedTime": _format_now()}}
        async with self._turns:
            await self._api.patch(series.path, body, content_type=MERGE_PATCH)
        series.shown = count


def _build_event(
    subject: ObjectReference, reason: Reason, note: str, *, instance: str, kind: str, unique: str
) -> Json:
    digest = hashlib.sha256(unique.encode()).hexdigest()[:16]
    # An object's name may be as long as an Event's, which is to hold the digest as well.
    name = f"{subject.name[:MAX_NAME].rstrip('.-')}.{digest}"
    namespace = subject.namespace or NAMESPACE
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": _format_now(),
        "type": kind,
        "reason": reason,
        "action": "Reconcile",
        "note": cut(note, MAX_NOTE),
        "reportingController": f"{names.GROUP}/controller",
        "reportingInstance": instance[:128],
        "regarding": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "name": subject.name,
            "uid": subject.uid,
            **({"namespace": subject.namespace} if subject.namespace else {}),
        },
    }


def _format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
