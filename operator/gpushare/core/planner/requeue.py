"""Keeps the times at which nodes are decided about again even if no event concerns them."""

import heapq
from datetime import datetime


class RequeueQueue:
    """A queue with one time for each node: the earliest that was requested."""

    def __init__(self) -> None:
        self._due: dict[str, datetime] = {}
        self._queue: list[tuple[datetime, str]] = []
        """A heap that also has outdated times, which are skipped when they are popped."""

    def set(self, node: str, at: datetime) -> None:
        """Make `node` due at that time, unless it is due sooner."""
        at = min(at, self._due.get(node, at))
        self._due[node] = at
        heapq.heappush(self._queue, (at, node))

    def stop(self, node: str) -> None:
        """Remove the node's time, since the node is being decided about now."""
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
        """Return when the next node is due; None where none is."""
        while self._queue and self._due.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None
