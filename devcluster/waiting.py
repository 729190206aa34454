"""Waits for a condition."""

import time
from collections.abc import Callable

from devcluster.errors import ClusterError


def wait_until(
    condition: Callable[[], bool],
    *,
    expectation: str,
    timeout_seconds: float,
    poll_seconds: float = 0.1,
    advice: Callable[[], str] = lambda: "",
) -> None:
    """Return as soon as ``condition`` holds; check it once more at the timeout.

    Raises :class:`ClusterError` after ``timeout_seconds`` with the ``expectation`` and the text of
    ``advice``.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        is_late = time.monotonic() > deadline
        if condition():
            return
        if is_late:
            raise ClusterError(
                f"{expectation}: not within {timeout_seconds:g} s. {advice()}".rstrip()
            )
        time.sleep(poll_seconds)
