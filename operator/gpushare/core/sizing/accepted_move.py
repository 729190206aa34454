"""Reads which move to a pool a user accepted."""

from gpushare.api.pool import Pool
from gpushare.api.status import Recommendation


def name_accepted(shown: Recommendation) -> str:
    """Return the value of the annotation by which a user accepts what the status shows.

    It has the time since when this is recommended: the same move that comes again another time, or
    a manifest from a backup, needs another word of a user.
    """
    return f"{shown.hash}@{shown.since.isoformat()}"


def find_accepted(pool: Pool) -> str:
    """Return the hash of the move that the annotation of `pool` accepts; empty where it is none."""
    shown = pool.status.recommendation
    is_accepted = shown is not None and pool.accept_move == name_accepted(shown)
    return shown.hash if shown is not None and is_accepted else ""
