"""Decisions on their way to the log."""

import asyncio
import logging
import time

from gpushare.core.admission import Decision

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.1


class Journal:
    """Writes a line for each pod that was sent somewhere, many lines at a time.

    A log record of its own costs more than the decision that it tells of.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, str, Decision]] = []

    def note(self, namespace: str, decision: Decision) -> None:
        """Log a decision on a pod in `namespace`, within a tenth of a second."""
        if not self._entries:
            if not log.isEnabledFor(logging.INFO):
                return
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        self._entries.append((time.time(), namespace, decision))

    def flush(self) -> None:
        """Write what was noted."""
        entries, self._entries = self._entries, []
        if entries:
            lines = [
                (
                    seconds,
                    {
                        "msg": decision.message,
                        "namespace": namespace,
                        "pool": decision.pool,
                        "reason": decision.reason,
                    },
                )
                for seconds, namespace, decision in entries
            ]
            log.info("%d decisions", len(lines), extra={"lines": lines})
