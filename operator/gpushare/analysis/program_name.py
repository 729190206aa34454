"""The name by which the user called the program, in the commands that messages name."""

from contextvars import ContextVar

CALLED = ContextVar("CALLED", default="gpushare")
"""`gpushare`, or `kubectl gpushare` as kubectl's plugin."""


def name_command(command: str) -> str:
    """Name a command of the program as the user types it."""
    return f"{CALLED.get()} {command}"
