"""Builds pools whose spec was written several times, with their status."""

from datetime import datetime, timedelta
from typing import Any

from gpushare.api.pool import Pool
from gpushare.core.rollout.contest import record_changes
from tests.kit.values.objects import NOW, a_pool


def write_spec(pool: Pool, at: datetime, writer: str = "", **spec: Any) -> Pool:
    """Update the pool's spec, and record the change in its status as the operator does."""
    changed = a_pool(pool.name, **{"schedule": pool.spec.schedule, **spec}).spec
    writers = dict.fromkeys(("schedule", "placement", "nodes"), writer)
    update = {"spec": changed, "writers": writers, "generation": pool.generation + 1}
    written = pool.model_copy(update=update)
    status = pool.status.model_copy(update={"spec_changes": record_changes(written, at)})
    return written.model_copy(update={"status": status})


def flip_schedule(*schedules: str, every: timedelta = timedelta(seconds=5)) -> Pool:
    """Build a pool whose mode was set to these values one after the other, the last one now."""
    pool = a_pool(schedule=schedules[0])
    for count, schedule in enumerate(schedules):
        at = NOW - every * (len(schedules) - 1 - count)
        pool = write_spec(pool, at, f"writer-{count % 2}", schedule=schedule)
    return pool


def build_contested(one: str, other: str) -> Pool:
    """Build a pool whose mode two writers keep setting."""
    return flip_schedule(one, other, one, other)
