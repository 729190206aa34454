"""Keeps a fault from filling the log: the API server may be away for hours."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

PERIOD_SECONDS = 10.0
BURST = 20
"""Lines of one kind in a period."""


class Flood(logging.Filter):
    """Holds warnings and errors to `BURST` lines in `PERIOD_SECONDS`, for each place in the code.

    The last line that is let through says for how long there will be none (`muted_seconds`), and
    the first one after that how many there would have been (`left_out`). What is said of changes
    is all let through.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._periods: dict[tuple[str, int], _Period] = {}
        """By file and line."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or hasattr(record, "lines"):
            return True
        # Of a place, not of a sentence: that may name each of 5,000 nodes.
        place, now = (record.pathname, record.lineno), self._clock()
        period = self._periods.get(place)
        if period is None or now - period.began >= PERIOD_SECONDS:
            if period is not None and (left_out := period.count - BURST) > 0:
                vars(record)["left_out"] = left_out
            self._periods[place] = _Period(now)
            return True
        period.count += 1
        if period.count == BURST:
            vars(record)["muted_seconds"] = round(period.began + PERIOD_SECONDS - now, 1)
        return period.count <= BURST


@dataclass(slots=True)
class _Period:
    began: float
    count: int = 1
    """Lines."""
