"""One JSON object a line on stderr: ts, level, logger, msg, and what a call adds in `extra`."""

import functools
import json
import logging
import sys
import time
from typing import TextIO

import orjson

_QUIET = ("aiohttp.access", "kopf.objects", "kubernetes")
_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that do not come from `extra`; the last one is there from Python 3.12 on."""


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON; one whose `extra` has `lines` is as many lines.

    Each of those is when it happened (seconds since 1970), and what the line says.
    """

    def format(self, record: logging.LogRecord) -> str:
        attributes = vars(record)
        said = {key: attributes[key] for key in attributes.keys() - _OF_EVERY_RECORD}
        lines = said.pop("lines", None)
        head = {"level": record.levelname, "logger": record.name}
        if lines is not None:
            return "\n".join(
                _dump({"ts": _format_second(int(created)), **head, **line})
                for created, line in lines
            )
        if record.exc_info:
            said["exc_info"] = self.formatException(record.exc_info)
        if record.stack_info:
            said["stack_info"] = record.stack_info
        ts = _format_second(int(record.created))
        return _dump({"ts": ts, **head, "msg": record.getMessage(), **said})


def configure_logs(level: str, stream: TextIO | None = None) -> None:
    """Send everything that this process logs to `stream` (stderr), from `level` up.

    Raises ValueError where `level` is no name of a level.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


@functools.lru_cache(maxsize=1)
def _format_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(second))


def _dump(line: dict[str, object]) -> str:
    try:
        return orjson.dumps(line, default=str).decode()
    except TypeError:
        # What orjson refuses: an integer beyond 64 bits, a file's name that is no UTF-8.
        return json.dumps(line, default=str)
