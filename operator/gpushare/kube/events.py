"""Events: what happened to an object, where people look for it (`kubectl describe`)."""

import hashlib
import logging
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from gpushare import names
from gpushare.kube.client import ApiServer, Json
from gpushare.kube.errors import CALL_FAILURES, ApiError
from gpushare.names import Reason

log = logging.getLogger(__name__)

NAMESPACE = "default"
"""Where Events of cluster-scoped objects are kept."""
MAX_NOTE = 1024
"""Bytes."""
MAX_NAME = 236


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""
    """Empty for what is cluster-scoped."""


async def post_event(
    api: ApiServer,
    subject: Subject,
    reason: Reason,
    note: str,
    *,
    instance: str,
    kind: Literal["Normal", "Warning"] = "Normal",
    once: bool = False,
) -> None:
    """Post one Event; callers do so only where something changed, so none repeats.

    With `once`, the same reason is told of the same object a single time for as long as the API
    server keeps Events, also by a process that starts anew.

    Best effort: what an Event tells stands in a status or a log too, and must not wait for it.
    """
    unique = f"{subject.uid}/{reason}" if once else uuid.uuid4().hex
    body = _build_event(subject, reason, note, instance=instance, kind=kind, unique=unique)
    try:
        await api.create(
            f"apis/events.k8s.io/v1/namespaces/{body['metadata']['namespace']}/events", body
        )
    except CALL_FAILURES as error:
        if not (once and isinstance(error, ApiError) and error.is_conflict):
            log.warning("Event %s not posted: %s", reason, error or type(error))


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
