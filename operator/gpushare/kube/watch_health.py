"""Tells whether a watch is still alive, so that a quiet cluster and a dead watch differ.

A watch is never silent for long. The API server sends a bookmark about every minute and another
2 s before the watch's time is up (`defaultBookmarkFrequency` and `nextBookmarkTime` in
k8s.io/apiserver, pkg/storage/cacher), but promises none ("Watch bookmarks", Kubernetes API
Concepts). What it does promise is the end of a watch when its time is up.
"""

import time
from collections.abc import Callable

WATCH_SECONDS = 20.0
"""The server ends each watch after this."""
OVERTIME_SECONDS = 5.0
"""Time after which a watch that the server did not end is cut: its connection may be dead."""


class WatchHealth:
    """Records the last sign of life of a watch.

    Signs are a page of its list, an event, a bookmark, and its end. A refusal or a failed
    connection counts too: the API server is away then, which no restart of ours would solve.
    `clock` returns seconds, and never goes back.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._sign_at: float | None = None

    def note(self) -> None:
        """Record a sign of life at this time."""
        self._sign_at = self._clock()

    def find_stalled(self, limit_seconds: float) -> str | None:
        """Explain that there was no sign for longer than this; None before the first sign."""
        if self._sign_at is None:
            return None
        silent = self._clock() - self._sign_at
        if silent <= limit_seconds:
            return None
        return (
            f"the watch of {self._what} has been silent for {silent:.0f} s (limit "
            f"{limit_seconds:g} s): no event, bookmark or end"
        )
