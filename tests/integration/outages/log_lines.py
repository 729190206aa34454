"""What a process of the operator says in its log."""

from datetime import datetime
from typing import Any

import orjson

from devcluster.installation import OperatorProcess

Json = dict[str, Any]

ALWAYS = ("ts", "level", "logger", "msg")
"""Keys of every line, in this order."""
SUBJECT = frozenset({"pool", "generation", "reason", "reconcile_id"})
"""Keys of every line about a change of the controller's."""


def read_lines(process: OperatorProcess, since: int = 0) -> list[Json]:
    """The whole lines of the log after `since` bytes, each of which must be one of ours."""
    with process.log.open("rb") as log:
        log.seek(since)
        return [parse_line(line) for line in log if line.endswith(b"\n")]


def parse_line(line: bytes) -> Json:
    """A line of the log; AssertionError where it is none."""
    try:
        parsed: Json = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise AssertionError(f"no line of JSON: {line!r}") from error
    assert tuple(parsed)[: len(ALWAYS)] == ALWAYS, f"expected {ALWAYS} first: {line!r}"
    datetime.strptime(parsed["ts"], "%Y-%m-%dT%H:%M:%S.%fZ")
    return parsed


def news(lines: list[Json]) -> list[Json]:
    """Those that tell of more than what changed nothing."""
    return [line for line in lines if line["level"] != "DEBUG"]
