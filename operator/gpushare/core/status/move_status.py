"""Shows the next move of an idle node to a pool where pods wait."""

from datetime import datetime

from gpushare.api.pool import Pool
from gpushare.api.status import Recommendation
from gpushare.core.message import cut
from gpushare.core.sizing.moves import NOT_ACCEPTED, IdleNodeMove

_MOST_BYTES = 512


def build_recommendation(
    pool: Pool, move: IdleNodeMove | None, now: datetime
) -> Recommendation | None:
    """Build what the status of `pool` shows of the `move` to it; None without one.

    It is recommended since the time at which the same move was first shown.
    """
    if move is None:
        return None
    before = pool.status.recommendation
    is_same = before is not None and before.hash == move.hash
    return Recommendation(
        hash=move.hash,
        node=move.node,
        source=move.source,
        pods=move.pods.count,
        since=before.since if before is not None and is_same else now.replace(microsecond=0),
        message=cut(describe_move(move), _MOST_BYTES, "…"),
    )


def describe_move(move: IdleNodeMove) -> str:
    """Describe why the node moves, and what the move waits for."""
    others = f" and {move.pods.count - 1} alike" if move.pods.count > 1 else ""
    message = (
        f"Pod {move.pods.first}{others} would run if node {move.node} moved from pool "
        f"{move.source}, where it is idle, to pool {move.target}"
    )
    if move.waits_for == NOT_ACCEPTED:
        return f"{message}. To accept it, run: kubectl gpushare recommend --accept {move.hash}"
    return f"{message}. It waits until {move.waits_for}" if move.waits_for else message
