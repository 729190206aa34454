"""Reads the operator's writes from the API server's audit log, not from the operator itself."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from devcluster.cluster import Cluster
from devcluster.waiting import wait_until

OPERATOR = "system:serviceaccount:gpushare-system:gpushare-controller"
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Write:
    """A write that the API server accepted."""

    verb: str
    resource: str
    name: str


class OperatorWrites:
    """The operator's accepted writes from :meth:`begin` on, in order.

    A call's line is in the log a moment after its answer. So a call of our own is made, and the log
    is read up to its line.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._begin = 0

    def begin(self) -> None:
        """Forget earlier writes."""
        self._begin += len(self._read_log())

    def read(self) -> list[Write]:
        """Read the writes that have been answered by now."""
        return list(_parse(self._read_log()))

    def _read_log(self) -> bytes:
        mark = f"demo={uuid.uuid4().hex}".encode()
        self._cluster.api.call("GET", f"/api/v1/namespaces?{mark.decode()}")
        texts: list[bytes] = []

        def is_logged() -> bool:
            with self._cluster.audit_log.open("rb") as log:
                log.seek(self._begin)
                before, separator, after = log.read().partition(mark)
            texts[:] = [before + separator + after[: after.find(b"\n") + 1]]
            return b"\n" in after

        wait_until(
            is_logged,
            expectation="the API server's audit log has the call that was made just now",
            timeout_seconds=_TIMEOUT_SECONDS,
            poll_seconds=0.01,
        )
        return texts[0]


def _parse(log: bytes) -> Iterator[Write]:
    for line in log.splitlines():
        event = json.loads(line)
        accepted = event.get("responseStatus", {}).get("code", 500) < 300
        if event["user"]["username"] == OPERATOR and event["verb"] in _WRITES and accepted:
            target = event["objectRef"]
            yield Write(event["verb"], target["resource"], target.get("name", ""))
