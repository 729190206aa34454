"""Starts the program: Ctrl-C ends it without output, also while it is still being loaded."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def gpushare() -> None:
    """Run the program."""
    _heed_stop()
    with _loading():
        from gpushare.cli.main import gpushare as begin
    begin()


def kubectl_gpushare() -> None:
    """Run the program as kubectl's plugin."""
    with _loading():
        from gpushare.cli.main import kubectl_gpushare as begin
    begin()


def _heed_stop() -> None:
    """Have SIGTERM end the first process of a container too, until a role says how it ends.

    The kernel drops what PID 1 has no handler for (pid_namespaces(7)): a Pod that is deleted while
    its program is being read would be there until its grace period is over.
    """
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: object) -> None:
    os._exit(128 + number)


@contextmanager
def _loading() -> Iterator[None]:
    """Import the program in this block: Ctrl-C ends it silently, unless whoever started the program
    has it ignored.

    Garbage collection is off: imports leave no garbage, and looking for it costs 8 % of the start.
    """
    gc.disable()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end if os.getpid() == 1 else signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)
    gc.enable()
