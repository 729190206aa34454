"""Pools whose spec was written several times, as their status remembers it."""

from datetime import datetime, timedelta
from typing import Any

from gpushare.api.pool import Pool
from gpushare.core.rollout.contest import record_changes
from tests.kit.values.objects import NOW, a_pool


def write_spec(pool: Pool, at: datetime, writer: str = "", **spec: Any) -> Pool:
    """The pool with this in its spec, once the operator has read and recorded it."""
    changed = a_pool(pool.name, **{"schedule": pool.spec.schedule, **spec}).spec
    writers = dict.fromkeys(("schedule", "placement", "nodes"), writer)
    update = {"spec": changed, "writers": writers, "generation": pool.generation + 1}
    written = pool.model_copy(update=update)
    status = pool.status.model_copy(update={"spec_changes": record_changes(written, at)})
    return written.model_copy(update={"status": status})


def flip_schedule(*schedules: str, every: timedelta = timedelta(seconds=5)) -> Pool:
    """A pool that got these modes one after the other, the last of them now."""
    pool = a_pool(schedule=schedules[0])
    for count, schedule in enumerate(schedules):
        at = NOW - every * (len(schedules) - 1 - count)
        pool = write_spec(pool, at, f"writer-{count % 2}", schedule=schedule)
    return pool


def build_contested(one: str, other: str) -> Pool:
    """A pool to which two writers each give their mode."""
    return flip_schedule(one, other, one, other)
