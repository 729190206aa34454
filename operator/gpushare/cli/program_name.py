"""What the program is called by the person who called it: `gpushare`, or as kubectl's plugin."""

import re
from contextvars import ContextVar

NAME = "gpushare"
NAMED = (
    "adopt", "approve", "completion", "doctor", "explain", "inspect", "migrate", "plan", "render",
    "retry", "snapshot", "ui",
)  # fmt: skip
"""Commands that hints name; those that start a process are no hints."""
CALLED = ContextVar("CALLED", default=NAME)
"""The name in use."""
_COMMAND = re.compile(rf"(?<![\w./-])(?<!kubectl ){NAME} (?=(?:{'|'.join(NAMED)})(?![\w-]))")


def name_program(text: str) -> str:
    """`text`, whose hints name our commands so that the person can type them."""
    called = CALLED.get()
    return text if called == NAME else _COMMAND.sub(f"{called} ", text)
