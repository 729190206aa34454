"""Keeps the garbage collector from what never becomes garbage, such as modules."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CA_FILE_VARIABLE = "SSL_CERT_FILE"


@contextmanager
def importing() -> Iterator[None]:
    """Import in a block with the garbage collector off: modules never become garbage.

    aiohttp is imported first, without the machine's CA file, which it reads for TLS contexts of its
    own. Each session here brings another context, and they take a tenth of a start and 2 MiB.
    """
    with keeping_all():
        before = os.environ.get(_CA_FILE_VARIABLE)
        os.environ[_CA_FILE_VARIABLE] = os.devnull
        try:
            import aiohttp  # noqa: F401
        finally:
            del os.environ[_CA_FILE_VARIABLE]
            if before is not None:
                os.environ[_CA_FILE_VARIABLE] = before
        yield


@contextmanager
def keeping_all() -> Iterator[None]:
    """Run a block, or a function, with the garbage collector off: for a command that reads millions
    of values, and needs them until it ends. Looking through them takes longer than to read them."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
