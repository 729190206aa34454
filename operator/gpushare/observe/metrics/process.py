"""All metrics of one process."""

import math
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector

from gpushare import __version__
from gpushare.core.snapshot.write_outcome import WriteOutcome
from gpushare.observe.metrics import cards
from gpushare.observe.metrics.applications import ApplicationFigures
from gpushare.observe.metrics.family import Family, Shelf
from gpushare.observe.metrics.pools import PoolCollector, Sight

ADMISSION_BUCKETS_SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 3.0),
)
"""A decision takes well under a millisecond; the API server gives up after 3 s."""
RECONCILE_BUCKETS_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CHANGE_BUCKETS_SECONDS = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0)
"""A plugin is back within a minute, unless its image must be pulled; a teardown waits for people.
The deadline is 600 s."""


class Metrics:
    """The metrics of one process, in a registry of its own.

    What happens is counted as it happens, by whoever holds this; what is, the controller's view
    says when somebody asks.
    """

    def __init__(self, *, per_application: bool = True, per_node: bool = False) -> None:
        # Else each counter brings a second series that nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.look: Callable[[], Sight] = Sight
        """What the controller knows; it puts its own view here."""
        self._shelf = Shelf(self.registry)
        self._add_controllers()
        self._add_webhooks()
        self._add_both()
        self.registry.register(PoolCollector(lambda: self.look()))
        self._per_application, self._per_node = per_application, per_node

    @property
    def families(self) -> tuple[Family, ...]:
        """All metrics of ours; the registry has those of the process besides."""
        return (
            *self._shelf.families,
            *PoolCollector.families,
            *(ApplicationFigures.families if self._per_application else ()),
            *(cards.FAMILIES if self._per_node else ()),
        )

    def generate(self) -> bytes:
        """Return all metrics as they are now, in Prometheus' text format."""
        sight, written = self.look(), list[str]()
        figures = sight.figures
        if self._per_application:
            known = {pool.name for pool in sight.pools}
            written += figures.applications.write(known, figures.find_bytes)
        if self._per_node:
            written += cards.write_cards(figures)
        return generate_latest(self.registry) + "".join(written).encode()

    def observe_api_request(self, verb: str, resource: str, code: int) -> None:
        """Count a request; the `RequestObserver` of `kube.client.connect`."""
        self.api_requests.labels(verb, resource, str(code)).inc()

    def observe_watch(self, resource: str) -> None:
        """Note that the watch of `resource` was heard of just now."""
        self.watch_last_event.labels(resource).set(time.time())

    def forget_watches(self) -> None:
        """Note that nothing is watched any more, on purpose: that is no silence."""
        self.watch_last_event.clear()

    def observe_write(self, pool: str, reason: str, outcome: WriteOutcome) -> None:
        """Count a write to a node of `pool`, made for `reason`."""
        self.node_applies.labels(pool, reason).inc()
        if outcome.change is not None:
            self.changes.labels(pool, outcome.change).inc()
            self.change_seconds.observe(outcome.change_seconds)
        if outcome.flips:
            self.label_flips.labels(pool).inc(outcome.flips)
        if outcome.conflicts:
            self.label_conflicts.labels(pool).inc(outcome.conflicts)

    def _add_controllers(self) -> None:
        shelf = self._shelf
        self.leader = shelf.gauge("leader", "1 in the process that holds the Lease.")
        self.reconciles = shelf.counter(
            "reconcile_total", "Passes of the reconcile loop.", "result"
        )
        self.reconcile_seconds = shelf.histogram(
            "reconcile_duration_seconds",
            "Duration of a pass of the reconcile loop, also of one that fails.",
            RECONCILE_BUCKETS_SECONDS,
        )
        self.node_applies = shelf.counter(
            "node_applies_total", "Writes to nodes, by their reason.", "pool", "reason"
        )
        self.changes = shelf.counter(
            "changes_total", "Isolation changes of nodes, by their outcome.", "pool", "outcome"
        )
        self.change_seconds = shelf.histogram(
            "change_duration_seconds",
            "Duration of a node's isolation change, from its cordon.",
            CHANGE_BUCKETS_SECONDS,
        )
        self.plugin_restarts = shelf.counter(
            "plugin_restarts_total", "Device-plugin pods deleted.", "pool", "reason"
        )
        self.label_flips = shelf.counter(
            "label_flips_total",
            "Labels of a pool's nodes that others changed and the operator restored.",
            "pool",
        )
        self.label_conflicts = shelf.counter(
            "label_conflicts_total",
            "Labels that were left to another field manager that kept changing them.",
            "pool",
        )
        self.node_waits = shelf.counter(
            "node_waits_total", "How often a node began to wait, by reason.", "pool", "reason"
        )
        self.evictions = shelf.counter(
            "evictions_total",
            "Requested evictions, by their outcome: evicted, gone already, or refused.",
            "pool",
            "outcome",
        )

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

    def _add_both(self) -> None:
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
