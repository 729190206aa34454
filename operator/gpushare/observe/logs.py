"""Writes the log to stderr, one JSON object a line, whatever goes wrong.

INFO is a change of state; a line at DEBUG changed nothing. A line has `ts level logger msg`, the
keys of `reporting`, and those of its own call's `extra`.
"""

import contextlib
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

import orjson

from gpushare.observe.flood import Flood

if TYPE_CHECKING:
    # In this module of the standard library only for type checkers.
    from sys import UnraisableHookArgs

MAX_LINE = 16_000
"""Limit of a line in characters: container runtimes cut it at 16 KiB, and a cut line is no JSON."""
_DELETE = b"\x7f"
"""The only unprintable ASCII character that orjson does not escape."""
_CUTS = (4096, 1024, 256)
"""Limits in characters for each text of a line that is too long, tried one after another."""
SUBJECT = ("pool", "node", "reason", "generation", "reconcile_id")
"""Keys of the object of a change, in the order of a line."""
_HIDDEN = re.compile(r"""(?<=://)[^/\s"'@]*(?=@)|(?<=uthorization': ')[^'"\\]*""")
"""Credentials in a URL or in a request's headers, as errors of libraries quote them."""
_QUIET = ("aiohttp.access", "kopf", "kubernetes")
"""Loggers whose INFO is no change of ours."""
_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that do not come from `extra`; `taskName` exists from Python 3.12 on."""
_NOTHING: Mapping[str, object] = MappingProxyType({})
_WORK: ContextVar[Mapping[str, object]] = ContextVar("work", default=_NOTHING)

log = logging.getLogger(__name__)


@contextlib.contextmanager
def reporting(**keys: object) -> Iterator[None]:
    """Add these keys to every line of the block, and of the tasks that it starts.

    Keys whose value is None are left out.
    """
    known = {key: value for key, value in keys.items() if value is not None}
    token = _WORK.set({**_WORK.get(), **known})
    try:
        yield
    finally:
        _WORK.reset(token)


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON, or as several where its `extra` has `lines`.

    Each of `lines` is a time (seconds since 1970), and the line's keys. No logged value makes this
    fail or breaks a line: names and texts may come from anybody.
    """

    def format(self, record: logging.LogRecord) -> str:
        extra = {key: vars(record)[key] for key in vars(record) if key not in _OF_EVERY_RECORD}
        lines = extra.pop("lines", None)
        head = {"level": record.levelname, "logger": record.name}
        if lines is not None:
            return "\n".join(
                _dump({"ts": _format_time(created), **head, **line}) for created, line in lines
            )
        if record.exc_info:
            extra["exc_info"] = self.formatException(record.exc_info)
        if record.stack_info:
            extra["stack_info"] = record.stack_info
        ts, msg = _format_time(record.created), _read_message(record)
        return _dump({"ts": ts, **head, "msg": msg, **_in_order({**_WORK.get(), **extra})})


def configure_logs(level: str, stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (stderr), from `level` up.

    Raises ValueError for an unknown `level`.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(Flood(time.monotonic))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def log_what_nobody_caught() -> None:
    """Log the interpreter's own reports too: warnings, and errors that ended a thread or could not
    be raised."""

    def log_of_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            log.critical("a thread ended with an error", exc_info=args.exc_value)

    def log_unraisable(args: "UnraisableHookArgs") -> None:
        if args.exc_value is not None:
            log.error(args.err_msg or "an error was ignored", exc_info=args.exc_value)

    logging.captureWarnings(True)
    threading.excepthook = log_of_thread
    sys.unraisablehook = log_unraisable


def _in_order(keys: dict[str, object]) -> dict[str, object]:
    """Put the keys of `SUBJECT` first."""
    return {key: keys.pop(key) for key in SUBJECT if key in keys} | keys


def _read_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # A __str__ that fails, or arguments that don't fit: logging would report it as plain text.
        return str(record.msg)


def _format_time(seconds: float) -> str:
    """Format a time by RFC 3339, with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _dump(line: Mapping[str, object]) -> str:
    text = _encode(line)
    for limit in _CUTS:
        if len(text) <= MAX_LINE:
            break
        text = _encode({key: _cut(key, value, limit) for key, value in line.items()})
    # Checked first, since most lines have neither.
    return _HIDDEN.sub("...", text) if "@" in text or "uthorization" in text else text


def _encode(line: Mapping[str, object]) -> str:
    try:
        encoded = orjson.dumps(line, default=_name)
        if encoded.isascii() and _DELETE not in encoded:
            return encoded.decode()
    except TypeError:
        # orjson refuses integers beyond 64 bits, and file names that are no UTF-8.
        pass
    # Escaped: terminals interpret some characters, others end a line for some readers, and stderr
    # may have another encoding.
    return json.dumps(line, default=_name, skipkeys=True)


def _cut(key: str, value: object, limit: int) -> object:
    text = value if isinstance(value, str | int | float | None) else _name(value)
    if not isinstance(text, str) or len(text) <= limit:
        return text
    # The end of a traceback has the error.
    return f"...{text[-limit:]}" if key == "exc_info" else f"{text[:limit]}..."


def _name(value: object) -> str:
    """Return a text for a value that JSON can't express."""
    try:
        return str(value)
    except Exception:
        return f"a {type(value).__name__}"
