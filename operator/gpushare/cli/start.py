"""Where the program begins: Ctrl-C ends it without a word, also while it is still being read."""

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def gpushare() -> None:
    """The program."""
    with _quiet(), uncollected():
        from gpushare.cli.main import gpushare as begin
    begin()


def kubectl_gpushare() -> None:
    """The program as kubectl's plugin."""
    with _quiet(), uncollected():
        from gpushare.cli.main import kubectl_gpushare as begin
    begin()


@contextmanager
def uncollected() -> Iterator[None]:
    """A block that imports: nothing of it ever becomes garbage, and to look for some while it comes
    costs 8 % of a process's start."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _quiet() -> Iterator[None]:
    """A block that Ctrl-C ends as it ends programs that have no say in it; where whoever started
    the program has it ignored, it stays so."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)
