"""Creates and removes GPU pods at a steady rate, and counts their outcomes."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.core.api import Json
from bench.core.waiting import BenchError
from tests.kit.bench import Bench
from tests.kit.values.manifests import build_pod

LOST = "UnexpectedAdmissionError"
"""The kubelet's reason for a pod that it fails for good, since its devices are gone."""
_BACKLOG_SECONDS = 10
"""Limit of existing pods, in seconds of the rate, for a cluster that falls behind."""
_DRAIN_SECONDS = 120
_POLL_SECONDS = 0.1
_IN_FLIGHT = 4


@dataclass
class PodStream:
    """Pods of one GiB at a rate; a pod that has run for `run_seconds` is removed."""

    place: Bench
    selects: Mapping[str, str]
    per_second: float
    run_seconds: float
    created: int = 0
    served: int = 0
    """Number of pods that ran and were removed."""
    failures: Counter[str] = field(default_factory=Counter)
    """Numbers of pods that never ran, by reason."""
    seconds: float = 0.0
    """Time during which pods were created."""
    _since: dict[str, float] = field(default_factory=dict)
    """Time at which each pod was first seen to run."""

    @contextmanager
    def flowing(self, around_seconds: float) -> Iterator[None]:
        """Create pods within the block, and for `around_seconds` before and after it.

        Returns once every pod has ended. Raises BenchError where one does not.
        """
        stop = threading.Event()
        with ThreadPoolExecutor(1) as threads, ThreadPoolExecutor(_IN_FLIGHT) as calls:
            flow = threads.submit(self._flow, stop, calls)
            try:
                # What flows is the load; there is nothing to wait for.
                time.sleep(around_seconds)
                yield
                time.sleep(around_seconds)
            finally:
                stop.set()
                flow.result()

    def _flow(self, stop: threading.Event, calls: ThreadPoolExecutor) -> None:
        started, backlog = time.monotonic(), round(_BACKLOG_SECONDS * self.per_second)
        while not stop.wait(_POLL_SECONDS):
            self.seconds = time.monotonic() - started
            # Against the clock, so that a slow answer is caught up with.
            wanted = min(int(self.seconds * self.per_second), self._ended + backlog)
            list(calls.map(self._create_pod, range(self.created, wanted)))
            self.created = max(self.created, wanted)
            self._sweep(calls)
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._ended < self.created:
            if time.monotonic() > deadline:
                raise BenchError(f"some pods never end\n{self.place.describe()}")
            time.sleep(_POLL_SECONDS)
            self._sweep(calls)

    @property
    def _ended(self) -> int:
        return self.served + self.failures.total()

    def _create_pod(self, number: int) -> None:
        self.place.create_pod(build_pod(f"stream-{number:05}", gib=1, selects=self.selects))

    def _sweep(self, calls: ThreadPoolExecutor) -> None:
        (running, failed), now = judge_pods(self.place.pods()), time.monotonic()
        self._since = {pod: self._since.get(pod, now) for pod in running}
        over = [pod for pod, start in self._since.items() if now - start >= self.run_seconds]
        list(calls.map(self.place.delete_pod, [*over, *failed]))
        self.served += len(over)
        self.failures.update(failed.values())


def judge_pods(pods: Iterable[Json]) -> tuple[list[str], dict[str, str]]:
    """Return the pods that run, and those that never will, with the reason; without pods that are
    being removed."""
    present = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    reasons = {pod["metadata"]["name"]: _find_reason(pod) for pod in present}
    return (
        [pod["metadata"]["name"] for pod in present if pod["status"]["phase"] == "Running"],
        {pod: reason for pod, reason in reasons.items() if reason is not None},
    )


def _find_reason(pod: Json) -> str | None:
    """Find why the kubelet refused a pod, or its container can't start."""
    status = pod["status"]
    waits = [c["state"].get("waiting") or {} for c in status.get("containerStatuses", ())]
    causes = [status] if status["phase"] == "Failed" else [w for w in waits if w.get("message")]
    return causes[0].get("reason", "unknown") if causes else None
