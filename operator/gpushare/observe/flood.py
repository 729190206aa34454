"""Limits repeated log lines: the API server may be away for hours."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

PERIOD_SECONDS = 10.0
BURST = 20
"""Limit of lines of one place in the code in a period."""


class Flood(logging.Filter):
    """Limits warnings and errors to `BURST` lines in `PERIOD_SECONDS`, for each place in the code.

    The last line of a period has the time without further ones (`muted_seconds`), and the first
    line after it the number of dropped ones (`left_out`). Lines below WARNING are not limited.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._periods: dict[tuple[str, int], _Period] = {}
        """Periods by file and line."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or hasattr(record, "lines"):
            return True
        # By place in the code, not by message, which may name each of 5,000 nodes.
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
    """Number of lines."""
