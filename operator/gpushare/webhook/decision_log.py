"""Logs admission decisions, many at a time."""

import asyncio
import logging
import time

from gpushare.core.admission.decision import AdmissionDecision, sanitize

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.1
MAX_NAME = 253
"""Limit of a pod's name in bytes: the API server has not validated it yet."""


class DecisionLog:
    """Writes a line for each decision on a pod, many lines at a time.

    A log record for each would cost more than the decision.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, str, str, AdmissionDecision]] = []

    def note(self, level: int, namespace: str, pod: str, decision: AdmissionDecision) -> None:
        """Log a decision on `pod` in `namespace`, within a tenth of a second.

        `level` is INFO where it changes the pod, WARNING where it refuses it, else DEBUG.
        """
        if not log.isEnabledFor(level):
            return
        if not self._entries:
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        self._entries.append((time.time(), level, namespace, pod, decision))

    def flush(self) -> None:
        """Write the recorded decisions, in their order."""
        entries, self._entries = self._entries, []
        if not entries:
            return
        lines = [
            (
                seconds,
                {
                    "level": logging.getLevelName(level),
                    "msg": decision.message,
                    **({"pool": decision.pool} if decision.pool else {}),
                    "reason": decision.reason,
                    "namespace": namespace,
                    "pod": sanitize(pod, MAX_NAME),
                },
            )
            for seconds, level, namespace, pod, decision in entries
        ]
        highest = max(level for _, level, _, _, _ in entries)
        log.log(highest, "%d decisions", len(lines), extra={"lines": lines})
