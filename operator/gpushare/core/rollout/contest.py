"""Judges whether writers contest a pool's spec: a field that returned to earlier values.

managedFields keep only the last writer of a field, so its last changes are kept in the pool's
status. No change begins for a value that is not recorded there yet, so that a restart of the
operator loses none.
"""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from gpushare.api.pool import Pool
from gpushare.api.status import SpecChange
from gpushare.core.cause import Cause
from gpushare.names import Reason

KEPT = 4
"""The number of changes kept for each field."""
_MOST_CHARACTERS = 40
"""The longest value or manager's name kept; a longer value is replaced by its hash."""


def record_changes(pool: Pool, now: datetime) -> tuple[SpecChange, ...]:
    """Return the spec changes in the pool's status, with those that are not recorded there yet."""
    recorded, changes = _forgive(pool), list[SpecChange]()
    for field, value in _list_values(pool):
        before = _of_field(recorded, field)
        if value != (before[-1].value if before else ""):
            change = SpecChange(
                field=field,
                value=value,
                manager=pool.writers.get(field.partition(".")[0], "")[:_MOST_CHARACTERS],
                at=now.replace(microsecond=0),
                returns=any(each.value == value for each in before),
                retry=_shorten(pool.retry),
            )
            before = [*before, change][-KEPT:]
        changes += before
    stored = pool.status.spec_changes
    return stored if tuple(changes) == stored else tuple(changes)


def _forgive(pool: Pool) -> list[SpecChange]:
    """List the status's spec changes; after a new retry annotation earlier returns do not count.

    The next status stores this, since the annotation may be removed again, as by a tool that
    applies the pool without it.
    """
    retry = _shorten(pool.retry)
    return [
        each.model_copy(update={"returns": False, "retry": retry})
        if retry and each.returns and each.retry != retry
        else each
        for each in pool.status.spec_changes
    ]


def is_unrecorded(pool: Pool, now: datetime) -> bool:
    """Return whether the status lacks a spec change; False before the first record."""
    recorded = pool.status.spec_changes
    return bool(recorded) and record_changes(pool, now) is not recorded


def judge_contest(
    pool: Pool, changes: Sequence[SpecChange], now: datetime, window: timedelta
) -> tuple[Cause, datetime] | None:
    """Return why nothing begins in a contested pool, and until when; None if it is not contested.

    A field is contested if it returned to an earlier value twice within `window`, the second time
    by its last change, less than `window` ago. The first such field is reported.
    """
    for field in {each.field: None for each in changes}:
        of_field = _of_field(changes, field)
        last = of_field[-1]
        returns = [each for each in of_field if each.returns]
        if not last.returns or len(returns) < 2:
            continue
        if last.at - returns[-2].at < window and abs(now - last.at) < window:
            until = last.at + window
            return _refuse(pool, of_field, until), until
    return None


def _refuse(pool: Pool, changes: Sequence[SpecChange], until: datetime) -> Cause:
    """Return the refusal, with the command first: a status cuts the end of a long message."""
    listed = ", ".join(
        f"{each.value or 'not set'} at {each.at:%H:%M:%S} by {each.manager or 'an unknown manager'}"
        for each in changes
    )
    message = (
        f"spec.{changes[-1].field} keeps returning to earlier values, so nothing begins before "
        f"{until:%H:%M:%S} UTC. Stop all writers but one, and wait, or run `kubectl gpushare retry "
        f"pool/{pool.name}`. Last values: {listed}"
    )
    return Cause(Reason.SPEC_CONTESTED, message)


def _list_values(pool: Pool) -> Iterator[tuple[str, str]]:
    spec = pool.spec
    if spec.nvidia is None:
        yield "schedule", str(spec.schedule)
    else:
        yield "nvidia.config", _shorten(spec.nvidia.config)
    yield "placement", spec.placement or ""
    yield "nodes", spec.nodes.digest


def _of_field(changes: Sequence[SpecChange], field: str) -> list[SpecChange]:
    return [each for each in changes if each.field == field]


def _shorten(value: str) -> str:
    if len(value) <= _MOST_CHARACTERS:
        return value
    return hashlib.sha256(value.encode()).hexdigest()[:12]
