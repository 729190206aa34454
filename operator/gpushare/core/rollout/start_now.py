"""Keeps what a user started outside the windows: the changes of one plan, until they are done."""

from collections.abc import Collection
from datetime import datetime, timedelta

from gpushare.api.pool import Pool
from gpushare.api.status import StartedNow
from gpushare.core.rollout.change_kinds import ChangeKind, hash_kinds

MOST_KINDS = 50


def find_started(
    pool: Pool, kinds: Collection[ChangeKind], now: datetime, *, is_changing: bool
) -> StartedNow | None:
    """Find what the annotation starts: the kinds of the plan with its hash, left to be begun.

    It counts for that plan only: where it has another hash, or a time that is not of the last hour,
    as from a backup, or once the plan is done, there are no kinds, until it says something else.
    """
    if not pool.start_now:
        return None
    before, left = pool.status.started_now, {str(kind) for kind in kinds if kind.is_done}
    if before is not None and before.value == pool.start_now:
        is_over = not is_changing and left.isdisjoint(before.kinds)
        return before.model_copy(update={"kinds": ()}) if is_over else before
    plan_hash, _, said_at = pool.start_now.partition("@")
    is_meant = plan_hash == hash_kinds(kinds) and _is_recent(said_at, now)
    return StartedNow(
        value=pool.start_now, kinds=tuple(sorted(left))[:MOST_KINDS] if is_meant else ()
    )


def find_active(pool: Pool) -> tuple[str, ...]:
    """Return the kinds that the annotation has started; once that is in the pool's status."""
    started = pool.status.started_now
    return started.kinds if started is not None and started.value == pool.start_now else ()


def _is_recent(text: str, now: datetime) -> bool:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.tzinfo is not None and abs(now - moment) <= timedelta(hours=1)
