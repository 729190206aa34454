"""Waiting for a condition, never for a time."""

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
    """Return as soon as ``condition`` holds.

    Raises :class:`ClusterError` after ``timeout_seconds``, naming the ``expectation`` and what
    ``advice`` says then.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{expectation}: not within {timeout_seconds:g} s. {advice()}".rstrip()
            )
        time.sleep(poll_seconds)
