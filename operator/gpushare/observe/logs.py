"""One JSON object a line on stderr: ts, level, logger, msg, and what a call adds in `extra`."""

import logging
import sys
from typing import TextIO

from pythonjsonlogger.json import JsonFormatter

_QUIET = ("aiohttp.access", "kopf.objects", "kubernetes")


def configure_logs(level: str, stream: TextIO | None = None) -> None:
    """Send everything that this process logs to `stream` (stderr), from `level` up.

    Raises ValueError where `level` is no name of a level.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            "{asctime}{levelname}{name}{message}",
            style="{",
            datefmt="%Y-%m-%dT%H:%M:%S%z",
            rename_fields={
                "asctime": "ts",
                "levelname": "level",
                "name": "logger",
                "message": "msg",
            },
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
