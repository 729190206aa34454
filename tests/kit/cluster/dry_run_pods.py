"""Creates pods as dry runs at a rate, and counts those that admission missed."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from devcluster.apiserver import ApiError
from tests.kit.bench import PODS, POOL, Bench, Json
from tests.kit.cluster.background_thread import Background
from tests.kit.cluster.expect import expect
from tests.kit.values.manifests import build_pod

_IN_FLIGHT = 8
_PROBES_PER_SECOND = 50
_LOST = re.compile(
    r"^apiserver_admission_webhook_(?:fail_open_count|rejection_count)\{.*\} ([0-9.e+]+)$",
    re.MULTILINE,
)


class DryRuns(Background):
    """Creates `pod` with `dryRun=All` again and again within the block."""

    def __init__(self, bench: Bench, pod: Json, *, per_second: float) -> None:
        super().__init__("dry runs")
        self._bench, self._pod, self._per_second = bench, pod, per_second
        self.sent = 0
        self.seconds = 0.0
        """Time during which pods were created."""
        self.failures: list[str] = []
        """Errors of pods that were refused, or that got no pool."""

    def _run(self) -> None:
        started = time.monotonic()
        with ThreadPoolExecutor(_IN_FLIGHT) as calls:
            while not self._leaving.wait(1 / self._per_second):
                # Against the clock, so that a slow answer is caught up with.
                self.seconds = time.monotonic() - started
                due = int(self.seconds * self._per_second)
                list(calls.map(self._send, range(self.sent, due)))
                self.sent = max(self.sent, due)

    def _send(self, number: int) -> None:
        failure = ""
        try:
            pod = self._bench.call("POST", f"{PODS}?dryRun=All", self._pod)
            if POOL not in pod["spec"].get("nodeSelector", {}):
                failure = f"pod {number} came back without a pool"
        except (ApiError, OSError) as error:
            failure = f"pod {number}: {error}"
        if failure:
            self.failures.append(failure)


def count_lost(bench: Bench) -> float:
    """Count the failed calls of webhooks so far, by the API server's metrics."""
    metrics = bench.cluster.kubectl("get", "--raw", "/metrics")
    return sum(float(value) for value in _LOST.findall(metrics))


@contextmanager
def no_call_lost(bench: Bench, *, per_second: float) -> Iterator[None]:
    """Create pods at a rate within the block; check that each got a pool, and that no call of a
    webhook failed by the API server's metrics."""
    lost = count_lost(bench)
    with DryRuns(bench, build_pod("p"), per_second=per_second) as pods:
        yield
    print(f"pods={pods.sent} seconds={pods.seconds:.1f}")
    assert pods.failures == []
    assert count_lost(bench) == lost
    assert pods.sent > 0.8 * per_second * pods.seconds


def expect_routed(bench: Bench) -> None:
    """Wait until the API server knows the CA, and the webhook the pool."""

    def is_routed() -> bool:
        with DryRuns(bench, build_pod("p"), per_second=_PROBES_PER_SECOND) as probe:
            expect(bench, "pods are sent", lambda: probe.sent)
        return not probe.failures

    expect(bench, "pods are sent to the pool", is_routed)
