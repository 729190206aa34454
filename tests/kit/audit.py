"""Who wrote what, in which order, by the API server's own word: its audit log."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
OURS = "system:serviceaccount:gpushare-system:"
"""Prefix of the users that the chart's ServiceAccounts are."""


@dataclass(frozen=True, slots=True)
class Call:
    """One answered request."""

    at: datetime
    user: str
    verb: str
    resource: str
    """With its subresource: `pods`, `nodes/status`."""
    namespace: str
    name: str
    code: int
    annotations: dict[str, str]

    @property
    def is_ours(self) -> bool:
        return self.user.startswith(OURS)

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES

    @property
    def succeeded(self) -> bool:
        return self.code < 300


class AuditTrail:
    """The audit log of a cluster; a mark is a place in it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def mark(self) -> int:
        """The end as it is now, to read on from later."""
        return self._path.stat().st_size

    def calls(self, since: int = 0) -> Iterator[Call]:
        """Every answered request since the mark, oldest first."""
        with self._path.open("rb") as log:
            log.seek(since)
            for line in log:
                # The last line may still be on its way to the disk.
                if line.endswith(b"\n") and b'"stage":"ResponseComplete"' in line:
                    yield _parse(orjson.loads(line))

    def our_writes(self, since: int = 0) -> list[Call]:
        """What the operator wrote since the mark, the Lease aside."""
        return [
            call
            for call in self.calls(since)
            if call.is_ours and call.is_write and call.resource != "leases"
        ]

    def our_deletions(self, since: int = 0) -> list[str]:
        """Names of the pods that the operator deleted since the mark, in order."""
        return [
            call.name
            for call in self.our_writes(since)
            if call.verb == "delete" and call.resource == "pods" and call.succeeded
        ]


def _parse(event: dict[str, Any]) -> Call:
    about = event.get("objectRef") or {}
    sub = about.get("subresource")
    return Call(
        at=datetime.fromisoformat(event["stageTimestamp"]),
        user=event["user"].get("username", ""),
        verb=event["verb"],
        resource=about.get("resource", "") + (f"/{sub}" if sub else ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        annotations=event.get("annotations") or {},
    )
