"""Who wrote how often, by the API server's own word: its audit log and its counters."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from tests.bench.api import Api
from tests.kit.audit import OURS, WRITES

_COUNTER = "apiserver_request_total{"
_ANSWERED = b'"stage":"ResponseComplete"'


@dataclass(frozen=True, slots=True)
class Write:
    """One answered write of the operator's."""

    verb: str
    resource: str
    name: str
    code: int


class AuditTail:
    """What the operator wrote since the last look.

    The API server begins a new file every 100 MB; the one that was being read is read to its end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.open("rb")
        self._log.seek(0, os.SEEK_END)

    def close(self) -> None:
        self._log.close()

    def read_our_writes(self) -> list[Write]:
        """The operator's writes since this was called last, the Lease aside."""
        writes: list[Write] = []
        while True:
            # Looked at first: to a file that was put aside nothing is added any more.
            put_aside = os.fstat(self._log.fileno()).st_ino != self._path.stat().st_ino
            writes += self._read()
            if not put_aside:
                return writes
            self._log.close()
            self._log = self._path.open("rb")

    def _read(self) -> Iterator[Write]:
        while line := self._log.readline():
            if not line.endswith(b"\n"):
                # On its way to the disk: read again next time.
                self._log.seek(-len(line), os.SEEK_CUR)
                return
            if OURS.encode() in line and _ANSWERED in line and (write := _parse(line)):
                yield write


def _parse(line: bytes) -> Write | None:
    event = orjson.loads(line)
    about = event.get("objectRef") or {}
    is_ours = event["user"].get("username", "").startswith(OURS)
    if not is_ours or event["verb"] not in WRITES or about.get("resource") == "leases":
        return None
    sub = about.get("subresource")
    return Write(
        verb=event["verb"],
        resource=about.get("resource", "") + (f"/{sub}" if sub else ""),
        name=about.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
    )


async def count_applies(api: Api) -> int:
    """Server-side applies of nodes that the API server answered since it started.

    It counts them as verb APPLY; whoever sent them, and however they ended.
    """
    return sum_applies(await api.text("metrics"))


def sum_applies(metrics: str) -> int:
    """The sum of that counter over its other labels, in the text that Prometheus reads."""
    return sum(
        int(float(line.rsplit(" ", 1)[1]))
        for line in metrics.splitlines()
        if line.startswith(_COUNTER) and 'resource="nodes"' in line and 'verb="APPLY"' in line
    )
