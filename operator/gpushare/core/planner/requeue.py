"""The times at which nodes are decided about again although nothing happens to them."""

import heapq
from datetime import datetime


class RequeueQueue:
    """One moment for each node, the earliest that was asked for."""

    def __init__(self) -> None:
        self._due: dict[str, datetime] = {}
        self._queue: list[tuple[datetime, str]] = []
        """With moments that are not due any more: they are skipped when their time comes."""

    def set(self, node: str, at: datetime) -> None:
        """Wake for `node` at that time, unless it is to be sooner."""
        at = min(at, self._due.get(node, at))
        self._due[node] = at
        heapq.heappush(self._queue, (at, node))

    def stop(self, node: str) -> None:
        """Drop the node's time: it is being decided about now."""
        self._due.pop(node, None)

    def take_due(self, now: datetime) -> list[str]:
        """Remove and return the nodes whose time has come."""
        due = []
        while self._queue and self._queue[0][0] <= now:
            at, node = heapq.heappop(self._queue)
            if self._due.get(node) == at:
                due.append(node)
        return due

    def find_next(self) -> datetime | None:
        """Return when the next node is due."""
        while self._queue and self._due.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None
