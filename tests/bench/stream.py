"""GPU pods that come and go at a steady rate, and what became of each."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.bench.waiting import BenchError
from tests.kit.bench import Bench
from tests.kit.builders import build_pod

Json = dict[str, Any]

LOST = "UnexpectedAdmissionError"
"""The kubelet's reason for a pod whose devices are gone when it comes: Failed, for good."""
_BACKLOG_SECONDS = 10
"""Pods of so many seconds may be there at once: a cluster that falls behind must not drown."""
_SWEEP_SECONDS = 0.25
_POLL_SECONDS = 0.1
_IN_FLIGHT = 4


@dataclass(frozen=True)
class Failure:
    """A pod that never ran."""

    pod: str
    node: str
    at: str
    """When the kubelet turned it away."""
    reason: str
    message: str


@dataclass(frozen=True)
class Sweep:
    """What one look at the pods found."""

    running: frozenset[str]
    failures: tuple[Failure, ...]


@dataclass
class PodStream:
    """So many pods a second, each of one GiB; one that has run for `run_seconds` is removed."""

    bench: Bench
    selects: Mapping[str, str]
    per_second: float
    run_seconds: float
    created: int = 0
    served: int = 0
    """Pods that ran, and were removed."""
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    """How long pods were created."""
    _error: Exception | None = None

    @property
    def ended(self) -> int:
        return self.served + len(self.failures)

    def until_more_ended(self, count: int, *, within_seconds: float) -> None:
        """Return once `count` more pods have come to their end."""
        wanted = self.ended + count
        self._until(lambda: self.ended >= wanted, f"{count} more pods end", within_seconds)

    @contextmanager
    def flowing(self, *, drain_seconds: float) -> Iterator[None]:
        """A block during which pods are created; left once every one of them has ended.

        Raises BenchError where one did not within `drain_seconds`, or the API server refused.
        """
        stop_creating, stop_sweeping = threading.Event(), threading.Event()
        threads = [
            self._start(self._create, stop_creating),
            self._start(self._sweep, stop_sweeping),
        ]
        try:
            yield
            stop_creating.set()
            threads[0].join()
            self._until(lambda: self.ended >= self.created, "every pod ends", drain_seconds)
        finally:
            for stop in (stop_creating, stop_sweeping):
                stop.set()
            for thread in threads:
                thread.join()

    def _start(
        self, work: Callable[[threading.Event], None], stop: threading.Event
    ) -> threading.Thread:
        def run() -> None:
            try:
                work(stop)
            except Exception as error:
                self._error = error

        thread = threading.Thread(target=run, name=f"pods {work.__name__}", daemon=True)
        thread.start()
        return thread

    def _create(self, stop: threading.Event) -> None:
        started, backlog = time.monotonic(), round(_BACKLOG_SECONDS * self.per_second)
        with ThreadPoolExecutor(_IN_FLIGHT) as calls:
            while not stop.wait(1 / self.per_second):
                # Against the clock, so that a slow answer is caught up with.
                wanted = int((time.monotonic() - started) * self.per_second)
                due = max(self.created, min(wanted, self.ended + backlog))
                list(calls.map(self._create_pod, range(self.created, due)))
                self.created = due
                self.seconds = time.monotonic() - started

    def _create_pod(self, number: int) -> None:
        self.bench.create_pod(build_pod(f"stream-{number:05}", gib=1, selects=self.selects))

    def _sweep(self, stop: threading.Event) -> None:
        since: dict[str, float] = {}
        with ThreadPoolExecutor(_IN_FLIGHT) as calls:
            while not stop.wait(_SWEEP_SECONDS):
                sweep, now = judge_pods(self.bench.pods()), time.monotonic()
                since = {pod: since.get(pod, now) for pod in sweep.running}
                over = [pod for pod, start in since.items() if now - start >= self.run_seconds]
                failed = [failure.pod for failure in sweep.failures]
                list(calls.map(self.bench.delete_pod, [*over, *failed]))
                self.served += len(over)
                self.failures += sweep.failures

    def _until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if self._error is not None:
                raise BenchError(f"the stream of pods broke off: {self._error}") from self._error
            if time.monotonic() > deadline:
                raise BenchError(
                    f"{what}: not within {seconds:g} s; {self.created} pods created, "
                    f"{self.served} served, {len(self.failures)} failed\n{self.bench.describe()}"
                )
            time.sleep(_POLL_SECONDS)


def judge_pods(pods: Iterable[Json]) -> Sweep:
    """Which pods run, and which never will; those that are being removed count no more."""
    present = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return Sweep(
        frozenset(p["metadata"]["name"] for p in present if p["status"]["phase"] == "Running"),
        tuple(failure for pod in present if (failure := _find_failure(pod)) is not None),
    )


def _find_failure(pod: Json) -> Failure | None:
    """Why the pod was turned away, or why its container can't start."""
    status = pod["status"]
    waits = [c["state"].get("waiting") or {} for c in status.get("containerStatuses", ())]
    causes = [status] if status["phase"] == "Failed" else [w for w in waits if w.get("message")]
    if not causes:
        return None
    return Failure(
        pod=pod["metadata"]["name"],
        node=pod["spec"]["nodeName"],
        at=status.get("startTime", ""),
        reason=causes[0].get("reason", ""),
        message=causes[0].get("message", ""),
    )
