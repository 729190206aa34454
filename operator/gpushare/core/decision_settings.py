"""Builds what decisions need from an installation's settings, in a process or for a command."""

from datetime import timedelta

from gpushare import names
from gpushare.core.capacity.node_labels import PUBLISHED_KEYS
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.node import Timing
from gpushare.settings import Settings


def build_timing(settings: Settings) -> Timing:
    """Build the timing of changes: how long they wait, and for what."""
    return Timing(
        recheck=timedelta(seconds=settings.recheck_seconds),
        backoff=timedelta(seconds=settings.backoff_seconds),
        ready_timeout=timedelta(seconds=settings.ready_timeout_seconds),
        settle=timedelta(seconds=settings.resource_settle_seconds),
        release_patience=timedelta(seconds=settings.release_patience_seconds),
        zero_patience=timedelta(seconds=settings.zero_patience_seconds),
    )


def build_planner(settings: Settings) -> Planner:
    """Build the planner of a controller with these settings, before its first decision."""
    return Planner(
        build_timing(settings),
        may_evict=settings.allow_eviction,
        may_tear_down=settings.allow_teardown_jobs,
        memory_unit=settings.memory_unit,
        max_joins=settings.max_joins,
        published_keys=list_published_keys(settings),
    )


def list_published_keys(settings: Settings) -> frozenset[str]:
    """List the keys of the labels of nodes that pools publish in their status."""
    # Labels of ours follow from the pool, and a node that joins has them only a moment later.
    return PUBLISHED_KEYS.union(settings.node_label_keys) - names.NODE_LABELS
