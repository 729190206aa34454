"""The metrics of every process; those of the webhook stay empty in a controller."""

import math
import time

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector

from gpushare import __version__
from gpushare.observe.metrics.family import Family, Shelf

ADMISSION_BUCKETS_SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 3.0),
)
"""Buckets of admission: it takes well under a millisecond; the API server gives up after 3 s."""


class Metrics:
    """The metrics of a process, in their own registry: a webhook has no others."""

    def __init__(self) -> None:
        # Each counter would have a second series, with its time of creation.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._shelf = Shelf(self.registry)
        self._add_webhooks()
        self._add_common()

    @property
    def families(self) -> tuple[Family, ...]:
        """All metrics of ours, without those of the process, which are in the registry too."""
        return tuple(self._shelf.families)

    def generate(self) -> bytes:
        """Return all current metrics, in Prometheus' text format."""
        return generate_latest(self.registry)

    def observe_api_request(self, verb: str, resource: str, code: int) -> None:
        """Count a request; a `RequestObserver` for `kube.client.connect`."""
        self.api_requests.labels(verb, resource, str(code)).inc()

    def observe_watch(self, resource: str) -> None:
        """Record the current time as that of the last event of a watch."""
        self.watch_last_event.labels(resource).set(time.time())

    def forget_watches(self) -> None:
        """Remove the times of watches that ended on purpose, so that none looks stalled."""
        self.watch_last_event.clear()

    def _add_webhooks(self) -> None:
        shelf = self._shelf
        self.admissions = shelf.counter(
            "admission_requests_total", "Pods that the webhook decided on.", "reason"
        )
        self.workload_admissions = shelf.counter(
            "workload_admission_requests_total",
            "Workloads that the webhook answered about, by the decision on their pods.",
            "reason",
        )
        self.admission_seconds = shelf.histogram(
            "admission_duration_seconds",
            "Duration of a decision on a pod or a workload, once its request was received.",
            ADMISSION_BUCKETS_SECONDS,
        )
        self.certificate_expiry = shelf.gauge(
            "certificate_expiry_timestamp_seconds", "When the served certificate expires."
        )
        self.certificate_refused = shelf.gauge(
            "certificate_refused", "1 while the certificate in the Secret is rejected."
        )
        # A process without a certificate has no expiry that an alert could compare.
        self.certificate_expiry.set(math.nan)

    def _add_common(self) -> None:
        shelf = self._shelf
        self.watch_last_event = shelf.gauge(
            "watch_last_event_timestamp_seconds",
            "When a watch last had an event, a bookmark or its end.",
            "resource",
        )
        self.api_requests = shelf.counter(
            "api_requests_total",
            "Answered requests to the API server, except those of the watch of pools.",
            *("verb", "resource", "code"),
        )
        shelf.gauge("build_info", "The running version.", "version").labels(__version__).set(1)
