"""Pods that are created and leave no trace, so many a second, and those that admission missed."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from devcluster.apiserver import ApiError
from tests.kit.arrange import POOL
from tests.kit.bench import PODS, Bench

Json = dict[str, Any]

_IN_FLIGHT = 8


class DryRuns:
    """Sends `pod` to the API server as long as its block lasts, with `dryRun=All`."""

    def __init__(self, bench: Bench, pod: Json, *, per_second: float) -> None:
        self._bench, self._pod, self._per_second = bench, pod, per_second
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dry runs", daemon=True)
        self.sent = 0
        self.seconds = 0.0
        """How long pods were sent."""
        self.failures: list[str] = []
        """Of each pod that was refused, or that came back without a pool, what happened."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leaving.set()
        self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        with ThreadPoolExecutor(_IN_FLIGHT) as calls:
            while not self._leaving.wait(1 / self._per_second):
                # Against the clock, so that a slow answer is caught up with.
                self.seconds = time.monotonic() - started
                due = int(self.seconds * self._per_second)
                found = calls.map(self._send, range(self.sent, due))
                self.failures += [failure for failure in found if failure]
                self.sent = max(self.sent, due)

    def _send(self, number: int) -> str | None:
        try:
            pod = self._bench.call("POST", f"{PODS}?dryRun=All", self._pod)
        except (ApiError, OSError) as error:
            return f"pod {number}: {error}"
        if POOL not in pod["spec"].get("nodeSelector", {}):
            return f"pod {number} came back without a pool"
        return None
