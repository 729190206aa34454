"""Shows in which maintenance windows the waves of a plan begin."""

from collections.abc import Iterator
from shlex import quote
from typing import Any

from gpushare.analysis.forecast.calendar import Calendar, WindowForecast
from gpushare.analysis.forecast.pools import PoolForecast
from gpushare.analysis.program_name import name_command
from gpushare.cli.output.answer import Line
from gpushare.cli.output.tables import build_table
from gpushare.core.rollout.start_now import find_active
from gpushare.core.rollout.window_state import describe_moment, describe_start

MOST_SHOWN = 20
_COLUMNS = "WINDOW STARTS:start,ENDS:end,WAVES:waves,NODES:nodes"


def describe_calendar(calendar: Calendar) -> dict[str, Any]:
    """Build the calendar's part of a document."""
    return {
        "windows": [
            {
                "start": each.opening.start.isoformat(),
                "end": each.opening.end.isoformat(),
                "timeZone": each.opening.zone.key,
                "firstWave": each.first_wave,
                "lastWave": each.last_wave,
                "nodes": each.nodes,
            }
            for each in calendar.windows
        ],
        "doneAt": calendar.done_at and calendar.done_at.isoformat(),
        "left": calendar.left,
    }


def build_calendar(forecast: PoolForecast) -> Iterator[Line]:
    """Build the lines of a pool's calendar; none without windows."""
    pool, calendar, window = forecast.pool, forecast.calendar, forecast.status.window
    # By the controller, which also knows of a freeze of all pools.
    told = pool.status.window
    if "Frozen" in (told and told.state, window and window.state):
        yield ("  frozen: nothing begins until the freeze is over",)
        return
    if calendar is None:
        return
    yield from build_table(_COLUMNS, map(_build_row, calendar.windows[:MOST_SHOWN]), {})
    if len(calendar.windows) > MOST_SHOWN:
        yield (f"  and {len(calendar.windows) - MOST_SHOWN} more windows",)
    if calendar.left:
        nodes = f"{calendar.left} node{'s' if calendar.left > 1 else ''}"
        yield (f"  {nodes} in no window: none is as long as a change may take, or it is frozen",)
    elif calendar.done_at is not None:
        last = calendar.windows[-1].opening
        duration = forecast.duration
        is_known = duration is not None and duration.expected is not None
        what = "expected to be done" if is_known else "done at the latest, if no pod is waited for,"
        yield (f"  {what} {describe_moment(last, calendar.done_at)}",)
    is_there = told is not None and not find_active(pool)
    if is_there and window is not None and window.state == "Closed" and forecast.plan.hash:
        command = name_command(f"start-now {quote(pool.name)} --plan {forecast.plan.hash}")
        yield (f"  to start it outside the windows, run: {command}",)


def _build_row(entry: WindowForecast) -> dict[str, Any]:
    first, last = entry.first_wave, entry.last_wave
    return {
        "start": describe_start(entry.opening),
        "end": describe_moment(entry.opening, entry.opening.end),
        "waves": str(first) if first == last else f"{first}-{last}",
        "nodes": entry.nodes,
    }
