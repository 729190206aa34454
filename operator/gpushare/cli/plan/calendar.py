"""Shows in which maintenance windows the waves of a plan begin."""

from collections.abc import Iterator
from datetime import datetime
from shlex import quote
from typing import Any
from zoneinfo import ZoneInfo

from gpushare.analysis.forecast.calendar import Calendar
from gpushare.analysis.forecast.pools import PoolForecast
from gpushare.analysis.program_name import name_command
from gpushare.cli.output.answer import Line
from gpushare.cli.output.tables import build_table
from gpushare.core.rollout.start_now import find_active
from gpushare.core.rollout.window_state import describe_moment

Json = dict[str, Any]

MOST_SHOWN = 20
_COLUMNS = "WINDOW STARTS:start,ENDS:end,WAVES:waves,NODES:nodes"


def describe_windows(forecast: PoolForecast) -> Json:
    """Build the part of a pool's document about its windows."""
    pool, window = forecast.pool, forecast.status.window
    # By the controller, which also knows of a freeze of all pools.
    known = pool.status.window
    is_closed = window is not None and window.state == "Closed"
    return {
        "frozen": "Frozen" in (known and known.state, window and window.state),
        "canStartNow": known is not None and is_closed and not find_active(pool),
        "calendar": _describe_calendar(forecast.calendar) if forecast.calendar else None,
    }


def _describe_calendar(calendar: Calendar) -> Json:
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


def build_calendar(document: Json) -> Iterator[Line]:
    """Build the lines of a pool's windows; none without windows."""
    if document["frozen"]:
        yield ("  frozen: nothing begins until the freeze is over",)
        return
    if (calendar := document["calendar"]) is None:
        return
    windows, left = calendar["windows"], calendar["left"]
    yield from build_table(_COLUMNS, map(_build_row, windows[:MOST_SHOWN]), {})
    if len(windows) > MOST_SHOWN:
        yield (f"  and {len(windows) - MOST_SHOWN} more windows",)
    if left:
        nodes = f"{left} node{'s' if left > 1 else ''}"
        yield (f"  {nodes} in no window: none is as long as a change may take, or it is frozen",)
    elif calendar["doneAt"] is not None:
        is_known = document["expectedSeconds"] is not None
        what = "expected to be done" if is_known else "done at the latest, if no pod is waited for,"
        yield (f"  {what} {_tell_moment(windows[-1], calendar['doneAt'])}",)
    if document["canStartNow"] and document["hash"]:
        command = name_command(f"start-now {quote(document['name'])} --plan {document['hash']}")
        yield (f"  to start it outside the windows, run: {command}",)


def _build_row(window: Json) -> Json:
    first, last = window["firstWave"], window["lastWave"]
    return {
        "start": _tell_moment(window, window["start"]),
        "end": _tell_moment(window, window["end"]),
        "waves": str(first) if first == last else f"{first}-{last}",
        "nodes": window["nodes"],
    }


def _tell_moment(window: Json, moment: str) -> str:
    return describe_moment(ZoneInfo(window["timeZone"]), datetime.fromisoformat(moment))
