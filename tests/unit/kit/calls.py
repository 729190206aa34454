"""Requests as the audit log tells of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.kit.cluster.audit_log import OURS, Call

START = datetime(2026, 1, 1, tzinfo=UTC)


def a_call(verb: str, resource: str, *, at: float = 0, took: float = 0.01, **other: Any) -> Call:
    """One of our controller, received `at` so many seconds."""
    received_at = START + timedelta(seconds=at)
    words = dict.fromkeys(
        ("id", "agent", "credential", "group", "namespace", "name", "message"), ""
    )
    fields: dict[str, Any] = {
        **words,
        "received_at": received_at,
        "at": received_at + timedelta(seconds=took),
        "user": f"{OURS}gpushare-controller",
        "code": 200,
        "annotations": {},
        **other,
    }
    return Call(verb=verb, resource=resource, **fields)
