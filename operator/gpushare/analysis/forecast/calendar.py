"""Forecasts in which maintenance windows the waves of a rollout begin, and when it is done."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpushare.analysis.forecast.steps import NodeForecast
from gpushare.api.pool import Pool
from gpushare.api.rollout import NewNodesPolicy
from gpushare.core.rollout.windows import Opening, find_opening_for

LAST_YEAR = 2200
"""A freeze until later has no end."""


@dataclass(frozen=True, slots=True)
class WindowForecast:
    """The waves that begin in one opening of the windows."""

    opening: Opening
    first_wave: int
    last_wave: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Calendar:
    """The openings that a pool's waves need, in their order."""

    windows: tuple[WindowForecast, ...]
    done_at: datetime | None
    """When the last of these nodes is expected to be done; None without any, where some find no
    window that is long enough, and where a kernel module is removed, as nobody knows how long."""
    left: int
    """Nodes that find none."""


def forecast_calendar(
    pool: Pool,
    steps: Collection[NodeForecast],
    each: timedelta,
    first_needs: timedelta,
    others_need: timedelta,
    at: datetime,
) -> Calendar | None:
    """Place the waves of `steps` into the pool's windows from `at` on.

    A wave takes `each`, without the pods that it waits for. It begins where a window has as
    much time left as the first one needs, or the others. None for a pool without windows, or
    without waves that wait for them.
    """
    windows, freeze = pool.spec.rollout.windows, pool.spec.rollout.freeze
    is_any_time = pool.spec.rollout.new_nodes is NewNodesPolicy.ANYTIME
    nodes = Counter(
        step.wave
        for step in steps
        if step.wave and step.kind is not None and not (is_any_time and step.plan.initializes)
    )
    if not (windows and nodes):
        return None
    if freeze is not None and freeze.holds(at):
        if freeze.until is None or freeze.until.year > LAST_YEAR:
            return Calendar((), None, nodes.total())
        at = freeze.until
    found: list[WindowForecast] = []
    left, moment = nodes.total(), at
    for wave, count in sorted(nodes.items()):
        opening = find_opening_for(windows, moment, others_need if found else first_needs)
        if opening is None:
            return Calendar(tuple(found), None, left)
        left -= count
        moment = max(moment, opening.start) + each
        before = found[-1] if found and found[-1].opening.end == opening.end else None
        first, so_far = (before.first_wave, before.nodes) if before else (wave, 0)
        if before is not None:
            found.pop()
        found.append(WindowForecast(opening, first, wave, so_far + count))
    is_known = not any(step.tears_down for step in steps)
    return Calendar(tuple(found), moment if is_known else None, 0)
