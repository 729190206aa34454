"""Where the program begins: Ctrl-C ends it without a word, also while it is still being read."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from gpushare.cli.imports import uncollected


def gpushare() -> None:
    """The program."""
    _heed_stop()
    with _quiet(), uncollected():
        from gpushare.cli.main import gpushare as begin
    begin()


def kubectl_gpushare() -> None:
    """The program as kubectl's plugin."""
    with _quiet(), uncollected():
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
def _quiet() -> Iterator[None]:
    """A block that Ctrl-C ends as it ends programs that have no say in it; where whoever started
    the program has it ignored, it stays so."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end if os.getpid() == 1 else signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)
