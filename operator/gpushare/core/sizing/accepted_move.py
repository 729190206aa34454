"""Reads which move to a pool a user accepted."""

from datetime import datetime, timedelta

from gpushare.api.pool import Pool

_CLOCKS_DIFFER = timedelta(minutes=5)


def find_accepted(pool: Pool) -> str:
    """Return the hash of the move that the annotation of `pool` accepts; empty where it is none.

    It must be the move that the status shows, and accepted since then: the same move that comes
    again another day, or a manifest from a backup, needs another word of a user.
    """
    shown, (hash_, _, text) = pool.status.recommendation, pool.accept_move.partition("@")
    if shown is None or shown.hash != hash_:
        return ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return ""
    is_recent = moment.tzinfo is not None and moment >= shown.since - _CLOCKS_DIFFER
    return hash_ if is_recent else ""
