"""Reads the API server's audit log: which client wrote what, in which order."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_COMPLETE, _STARTED = b'"stage":"ResponseComplete"', b'"stage":"ResponseStarted"'
OURS = "system:serviceaccount:gpushare-system:"
"""Prefix of the users of the chart's ServiceAccounts."""
THIEF = "thief"
"""User agent of calls of others with our token (see stolen_token.py)."""
_OUR_POLICIES = (
    "ValidatingAdmissionPolicy 'gpushare-controller-",
    "ValidatingAdmissionPolicy 'gpushare-webhook-",
)
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
"""Annotation by which the API server distinguishes tokens of a ServiceAccount ("Managing Service
Accounts" in the Kubernetes documentation)."""
_ENDING = "because it is being terminated"
"""Said of a namespace in which nothing can be created any more."""


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    """ID that the answer has in its header Audit-Id."""
    received_at: datetime
    at: datetime
    """Time of the answer."""
    user: str
    agent: str
    """User agent of the client."""
    credential: str
    """ID of the call's token: each process of the operator has its own."""
    verb: str
    group: str
    """API group of the resource; empty for the core group."""
    resource: str
    """Resource with its subresource: `pods`, `nodes/status`."""
    namespace: str
    name: str
    code: int
    message: str
    """The API server's message of a refusal."""
    annotations: dict[str, str]

    @property
    def is_ours(self) -> bool:
        return self.user.startswith(OURS) and self.agent != THIEF

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES

    @property
    def is_our_write(self) -> bool:
        """Whether this is a write of the operator, except of the Lease."""
        return self.is_ours and self.is_write and self.resource != "leases"

    @property
    def succeeded(self) -> bool:
        return self.code < 300


class AuditTrail:
    """The audit log of a cluster; a mark is a position in it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def mark(self) -> int:
        """Return the current end, to read on from later."""
        return self._path.stat().st_size

    def calls(self, since: int = 0, stage: bytes = _COMPLETE) -> Iterator[Call]:
        """Yield every answered request since the mark, oldest first."""
        with self._path.open("rb") as log:
            log.seek(since)
            for line in log:
                # The last line may still be on its way to the disk.
                if line.endswith(b"\n") and stage in line:
                    yield _parse(orjson.loads(line))

    def all_calls(self, stage: bytes = _COMPLETE) -> Iterator[Call]:
        """Yield every answered request, also of rotated files."""
        for path in sorted(self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}")):
            yield from AuditTrail(path).calls(stage=stage)
        yield from self.calls(stage=stage)

    def our_writes(self, since: int = 0) -> list[Call]:
        """List the operator's writes since the mark, except of the Lease."""
        return [call for call in self.calls(since) if call.is_our_write]

    def our_deletions(self, since: int = 0) -> list[str]:
        """List the names of pods that the operator deleted since the mark, in order."""
        return [
            call.name
            for call in self.our_writes(since)
            if call.verb == "delete" and call.resource == "pods" and call.succeeded
        ]


class AuditTail:
    """Reads the audit log from its end on as it grows. The API server begins a new file every 100
    MB; the previous one is read to its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.open("rb")
        self._log.seek(0, os.SEEK_END)
        self._rest = b""

    def read(self, *, about: Collection[bytes] = ()) -> Iterator[Call]:
        """Yield the answered requests since the last reading, oldest first; with `about` only those
        whose line has one of these texts, which spares parsing all others."""
        while True:
            # Looked at first: to a file that was put aside nothing is added any more.
            put_aside = self._is_put_aside()
            *lines, self._rest = (self._rest + self._log.read()).split(b"\n")
            for line in lines:
                if _COMPLETE in line and (not about or any(text in line for text in about)):
                    yield _parse(orjson.loads(line))
            if not put_aside:
                return
            self._log.close()
            self._log, self._rest = self._path.open("rb"), b""

    def read_our_writes(self) -> list[Call]:
        """List the operator's writes since the last reading, except of the Lease."""
        return [call for call in self.read(about=(OURS.encode(),)) if call.is_our_write]

    def _is_put_aside(self) -> bool:
        try:
            return os.fstat(self._log.fileno()).st_ino != self._path.stat().st_ino
        except FileNotFoundError:
            # The next file is about to be made.
            return False

    def close(self) -> None:
        self._log.close()


def find_missing_rights(calls: Iterable[Call]) -> set[str]:
    """Find the requests that were refused each time for lack of a right. An API server that has
    just started refuses requests for seconds that it grants before and after. Nobody may create
    anything in a namespace that is being deleted."""
    granted: defaultdict[str, set[bool]] = defaultdict(set)
    for call in calls:
        if call.is_ours and _ENDING not in call.message:
            granted[f"{call.user}: {call.verb} {call.namespace} {call.resource}"].add(
                call.code != 403
            )
    return {asked for asked, answers in granted.items() if answers == {False}}


def find_held_back(calls: Iterable[Call]) -> set[str]:
    """Find the operator's requests that the chart's own policies refused."""
    return {
        f"{call.verb} {call.resource} {call.name}: {call.message}"
        for call in calls
        if call.is_ours and any(policy in call.message for policy in _OUR_POLICIES)
    }


def expect_rights_sufficed(audit: AuditTrail) -> None:
    """Check that the operator lacked no right, and no policy of the chart refused a call."""
    calls = list(audit.all_calls())
    # A watch that an API server took along when it ended was granted, and has no end in the log.
    missing = find_missing_rights([*calls, *audit.all_calls(_STARTED)])
    assert not missing, f"the chart lacks rights: {missing}"
    held_back = find_held_back(calls)
    assert not held_back, f"the chart's policies refuse what the operator does: {held_back}"


def _parse(event: dict[str, Any]) -> Call:
    about = event.get("objectRef") or {}
    answer = event.get("responseStatus") or {}
    sub = about.get("subresource")
    (credential,) = (event["user"].get("extra") or {}).get(_CREDENTIAL) or ("",)
    return Call(
        id=event["auditID"],
        received_at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        at=datetime.fromisoformat(event["stageTimestamp"]),
        user=event["user"].get("username", ""),
        agent=event.get("userAgent", ""),
        credential=credential,
        verb=event["verb"],
        group=about.get("apiGroup", ""),
        resource=about.get("resource", "") + (f"/{sub}" if sub else ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=answer.get("code", 0),
        message=answer.get("message", ""),
        annotations=event.get("annotations") or {},
    )
