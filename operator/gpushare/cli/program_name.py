"""Names the program as the user called it: `gpushare`, or as kubectl's plugin."""

import re
from contextvars import ContextVar

NAME = "gpushare"
NAMED = (
    "adopt", "approve", "completion", "doctor", "explain", "freeze", "inspect", "migrate", "plan",
    "render", "retry", "snapshot", "start-now", "ui", "unfreeze",
)  # fmt: skip
"""Commands that messages name; those that start a process are in none."""
CALLED = ContextVar("CALLED", default=NAME)
"""The name in use."""
_COMMAND = re.compile(rf"(?<![\w./-])(?<!kubectl ){NAME} (?=(?:{'|'.join(NAMED)})(?![\w-]))")


def name_program(text: str) -> str:
    """Return `text` with its commands under the name that the user typed."""
    called = CALLED.get()
    return text if called == NAME else _COMMAND.sub(f"{called} ", text)
