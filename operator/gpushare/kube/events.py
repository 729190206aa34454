"""Events: what happened to an object, where people look for it (`kubectl describe`)."""

import asyncio
import hashlib
import logging
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from gpushare import names
from gpushare.kube.client import ApiServer, Json
from gpushare.kube.errors import CALL_FAILURES, ApiError, NotLeaderError, describe_failure
from gpushare.names import Reason

log = logging.getLogger(__name__)

NAMESPACE = "default"
"""Where Events of cluster-scoped objects are kept."""
MAX_NOTE = 1024
"""Bytes."""
MAX_NAME = 236
AT_ONCE = 4
"""Events must not hold up the writes that matter."""
MAX_WAITING = 1000


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""
    """Empty for what is cluster-scoped."""


class Events:
    """Posts Events beside the work that they tell of.

    Best effort: what an Event tells stands in a status or a log too, and nothing waits for it.
    Callers post where something changed, so that none repeats.
    """

    def __init__(self, api: ApiServer, instance: str):
        self._api = api
        self._instance = instance
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(AT_ONCE)

    def post(
        self,
        subject: Subject,
        reason: Reason,
        note: str,
        *,
        warns: bool = False,
        once: bool = False,
        occasion: str = "",
    ) -> None:
        """Post one Event.

        With `once`, the same reason is told of the same object a single time for as long as the
        API server keeps Events, also by a process that starts anew; for each `occasion`, where
        there may be several.
        """
        if len(self._tasks) >= MAX_WAITING:
            log.warning("Event %s not posted: too many wait", reason)
            return
        unique = f"{subject.uid}/{reason}{occasion}" if once else uuid.uuid4().hex
        kind = "Warning" if warns else "Normal"
        body = _build_event(
            subject, reason, note, instance=self._instance, kind=kind, unique=unique
        )
        task = asyncio.create_task(self._send(body, may_exist=once), name=f"Event {reason}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Give up what has not been posted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self, body: Json, *, may_exist: bool) -> None:
        path = f"apis/events.k8s.io/v1/namespaces/{body['metadata']['namespace']}/events"
        try:
            async with self._turns:
                await self._api.create(path, body)
        except (*CALL_FAILURES, NotLeaderError) as error:
            if not (may_exist and isinstance(error, ApiError) and error.is_conflict):
                log.warning("Event %s not posted: %s", body["reason"], describe_failure(error))


def _build_event(
    subject: Subject, reason: Reason, note: str, *, instance: str, kind: str, unique: str
) -> Json:
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    digest = hashlib.sha256(unique.encode()).hexdigest()[:16]
    # An object's name may be as long as an Event's, which is to hold the digest as well.
    name = f"{subject.name[:MAX_NAME].rstrip('.-')}.{digest}"
    namespace = subject.namespace or NAMESPACE
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": now,
        "type": kind,
        "reason": reason,
        "action": "Reconcile",
        "note": _cut(note),
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


def _cut(note: str) -> str:
    return note.encode(errors="replace")[:MAX_NOTE].decode(errors="ignore")
