"""Events: what happened to an object, where people look for it (`kubectl describe`)."""

import logging
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from gpushare import names
from gpushare.kube.client import ApiServer
from gpushare.kube.errors import CALL_FAILURES
from gpushare.names import Reason

log = logging.getLogger(__name__)

NAMESPACE = "default"
"""Where Events of cluster-scoped objects are kept."""
MAX_NOTE = 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about."""

    api_version: str
    kind: str
    name: str
    uid: str


async def post_event(
    api: ApiServer,
    subject: Subject,
    reason: Reason,
    note: str,
    *,
    instance: str,
    kind: Literal["Normal", "Warning"] = "Normal",
) -> None:
    """Post one Event; callers do so only where something changed, so none repeats.

    Best effort: what an Event tells stands in a status or a log too, and must not wait for it.
    """
    try:
        await _create(api, subject, reason, note, instance=instance, kind=kind)
    except CALL_FAILURES as error:
        log.warning("Event %s not posted: %s", reason, error or type(error))


async def _create(
    api: ApiServer,
    subject: Subject,
    reason: Reason,
    note: str,
    *,
    instance: str,
    kind: str,
) -> None:
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    await api.create(
        f"apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events",
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{subject.name}.{uuid.uuid4().hex[:16]}", "namespace": NAMESPACE},
            "eventTime": now,
            "type": kind,
            "reason": reason,
            "action": "Reconcile",
            "note": note[:MAX_NOTE],
            "reportingController": f"{names.GROUP}/controller",
            "reportingInstance": instance[:128],
            "regarding": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "name": subject.name,
                "uid": subject.uid,
            },
        },
    )
