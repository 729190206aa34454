"""Keeps the changes that a user started outside the windows: those of one plan, until done."""

from collections.abc import Collection
from datetime import datetime, timedelta

from gpushare.api.pool import Pool
from gpushare.api.status import StartedNow
from gpushare.core.rollout.change_kinds import ChangeKind, hash_kinds

MOST_KINDS = 50


def find_started(
    pool: Pool, kinds: Collection[ChangeKind], now: datetime, *, is_changing: bool
) -> StartedNow | None:
    """Return what the pool's `start-now` annotation starts; None without the annotation.

    These are the kinds left in the plan whose hash the annotation has. It starts no kinds if its
    hash differs, if its time is not within an hour of `now` (as from a backup), or once the plan is
    done, until the annotation gets another value.
    """
    if not pool.start_now:
        return None
    before, remaining = pool.status.started_now, {str(kind) for kind in kinds if kind.is_done}
    if before is not None and before.value == pool.start_now:
        is_over = not is_changing and remaining.isdisjoint(before.kinds)
        return before.model_copy(update={"kinds": ()}) if is_over else before
    plan_hash, _, said_at = pool.start_now.partition("@")
    is_meant = plan_hash == hash_kinds(kinds) and _is_recent(said_at, now)
    return StartedNow(
        value=pool.start_now, kinds=tuple(sorted(remaining))[:MOST_KINDS] if is_meant else ()
    )


def find_active(pool: Pool) -> tuple[str, ...]:
    """Return the kinds of change that the annotation has started, as the pool's status has them."""
    started = pool.status.started_now
    return started.kinds if started is not None and started.value == pool.start_now else ()


def _is_recent(text: str, now: datetime) -> bool:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.tzinfo is not None and abs(now - moment) <= timedelta(hours=1)
