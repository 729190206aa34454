"""Every metric of every role. Labels are few-valued: never a node, a pod or a UID."""

import math
import time
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.process_collector import ProcessCollector

from gpushare import __version__, names

ADMISSION_BUCKETS_SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 3.0),
)
"""A decision takes well under a millisecond; the API server gives up after 3 s."""
RECONCILE_BUCKETS_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The metrics of one process, in a registry of its own."""

    def __init__(self) -> None:
        # Else each counter brings a second series that nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        prefix = names.METRIC_PREFIX
        counter = partial(Counter, namespace=prefix, registry=self.registry)
        gauge = partial(Gauge, namespace=prefix, registry=self.registry)
        histogram = partial(Histogram, namespace=prefix, registry=self.registry)

        self.reconciles = counter("reconcile_total", "Passes of the reconcile loop.", ["result"])
        self.reconcile_seconds = histogram(
            "reconcile_duration_seconds",
            "Duration of one pass of the reconcile loop.",
            buckets=RECONCILE_BUCKETS_SECONDS,
        )
        self.node_applies = counter(
            "node_applies_total", "Writes to nodes, by what they were for.", ["pool", "reason"]
        )
        self.plugin_restarts = counter(
            "plugin_restarts_total", "Device-plugin pods deleted.", ["pool", "reason"]
        )
        self.evictions = counter(
            "evictions_total",
            "Evictions asked for, by what came of it: evicted, gone already, or refused.",
            ["pool", "outcome"],
        )
        self.pool_nodes = gauge("pool_nodes", "Members of a pool, by state.", ["pool", "state"])
        self.pool_containers = gauge(
            "pool_containers",
            "Containers that share a pool's cards: isolated, shared (not isolated), or unknown.",
            ["pool", "isolation"],
        )
        self.stale_containers = gauge(
            "stale_containers",
            "Containers whose isolation is not what their node's mode gives.",
            ["pool"],
        )
        self.opted_out_containers = gauge(
            "opted_out_containers",
            "Containers that take isolation off themselves, on nodes whose mode isolates.",
            ["pool"],
        )
        self.node_waits = counter(
            "node_waits_total", "Times that a node began to wait, by reason.", ["pool", "reason"]
        )
        self.unplaced_pods = gauge(
            "unplaced_pods", "GPU pods without a pool or a node, by reason.", ["reason"]
        )
        self.leader = gauge("leader", "1 in the process that holds the Lease.")

        self.admissions = counter(
            "admission_requests_total", "Pods that the webhook was asked about.", ["reason"]
        )
        self.workload_admissions = counter(
            "workload_admission_requests_total",
            "Workloads that the webhook was asked about, by what becomes of their pods.",
            ["reason"],
        )
        self.admission_seconds = histogram(
            "admission_duration_seconds",
            "From the request's body to the answer.",
            buckets=ADMISSION_BUCKETS_SECONDS,
        )
        self.certificate_expiry = gauge(
            "certificate_expiry_timestamp_seconds", "When the served certificate ends."
        )
        self.certificate_refused = gauge(
            "certificate_refused", "1 while what the certificate's Secret holds is not taken."
        )
        # A process without a certificate has no expiry that an alert could compare.
        self.certificate_expiry.set(math.nan)

        self.watch_last_event = gauge(
            "watch_last_event_timestamp_seconds",
            "Last event or bookmark of a watch.",
            ["resource"],
        )
        self.api_requests = counter(
            "api_requests_total",
            "Answered requests to the API server.",
            ["verb", "resource", "code"],
        )
        gauge("build_info", "The running version.", ["version"]).labels(__version__).set(1)

    def observe_api_request(self, verb: str, resource: str, code: int) -> None:
        """Count a request; the `RequestObserver` of `kube.client.connect`."""
        self.api_requests.labels(verb, resource, str(code)).inc()

    def observe_watch(self, resource: str) -> None:
        """Note that the watch of `resource` was heard of just now."""
        self.watch_last_event.labels(resource).set(time.time())
