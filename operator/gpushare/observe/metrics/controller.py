"""All metrics of a controller."""

import math
from collections.abc import Callable

from gpushare.core.snapshot.write_outcome import WriteOutcome
from gpushare.observe.metrics import Metrics, cards
from gpushare.observe.metrics.applications import ApplicationFigures
from gpushare.observe.metrics.family import Family
from gpushare.observe.metrics.pools import PoolCollector, Sight

RECONCILE_BUCKETS_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
CHANGE_BUCKETS_SECONDS = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0)
"""Buckets of changes: a plugin restarts within a minute, unless its image is pulled; a teardown
waits for users. The deadline is 600 s."""


class ControllerMetrics(Metrics):
    """The metrics of a controller, also of one with a webhook in its process.

    Events are counted as they happen; states are read from the controller at a scrape. A process
    with only a webhook does not import this module, which would cost it memory.
    """

    def __init__(self, *, per_application: bool = True, per_node: bool = False) -> None:
        super().__init__()
        self.look: Callable[[], Sight] = Sight
        """Returns the controller's view; the controller sets this function."""
        self._add_controllers()
        self.registry.register(PoolCollector(lambda: self.look()))
        self._per_application, self._per_node = per_application, per_node

    @property
    def families(self) -> tuple[Family, ...]:
        """All metrics of ours, without those of the process, which are in the registry too."""
        return (
            *super().families,
            *PoolCollector.families,
            *(ApplicationFigures.families if self._per_application else ()),
            *(cards.FAMILIES if self._per_node else ()),
        )

    def generate(self) -> bytes:
        """Return all current metrics, in Prometheus' text format."""
        sight, written = self.look(), list[str]()
        figures = sight.figures
        if self._per_application:
            known = {pool.name for pool in sight.pools}
            written += figures.applications.write(known, figures.find_bytes)
        if self._per_node:
            written += cards.write_cards(figures)
        return super().generate() + "".join(written).encode()

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
        self.node_moves = shelf.counter(
            "node_moves_total", "Idle nodes that moved to where pods wait.", "pool", "source"
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
        self.table_verified = shelf.gauge(
            "admission_table_verified_timestamp_seconds",
            "When the admission table was last known to equal the pools; 0: not yet.",
        )
        # Who keeps no table has no time that an alert could compare.
        self.table_verified.set(math.nan)
        self.table_omitted = shelf.gauge(
            "admission_table_omitted_pools",
            "Pools that are left out of the admission table for lack of space.",
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
