"""Imports that are quick: the garbage collector rests while modules are read."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """A block that imports: nothing of it ever becomes garbage, and to look for some while it comes
    costs 8 % of a process's start."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
