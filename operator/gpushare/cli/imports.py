"""How what a role or a command needs is imported: most of its start."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CERTIFICATES = "SSL_CERT_FILE"


@contextmanager
def importing() -> Iterator[None]:
    """A block that imports, in which no garbage is looked for: there is none.

    aiohttp is imported first, without the system's CA certificates: it reads them for TLS contexts
    of its own, which nobody here uses, and they take a tenth of a start and 2 MiB.
    """
    gc.disable()
    before = os.environ.get(_CERTIFICATES)
    os.environ[_CERTIFICATES] = os.devnull
    try:
        import aiohttp  # noqa: F401
    finally:
        del os.environ[_CERTIFICATES]
        if before is not None:
            os.environ[_CERTIFICATES] = before
    yield
    gc.enable()
