"""``python -m tests.bench.admission.server KIND CERTIFICATE [POOLS]``: one webhook server.

A process of its own, so that its CPU time is its own. It prints its port once it listens, and ends
with its stdin.
"""

import asyncio
import ssl
import sys
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """Who answers."""

    FLOOR = "floor"
    OURS = "ours"
    KOPF = "kopf"


def choose(kind: Kind, certificate: Path, pools: int) -> AbstractAsyncContextManager[int]:
    """The server of a kind; the modules of the others are not even imported."""
    if kind is Kind.KOPF:
        from tests.bench.admission import kopfs

        return kopfs.serving(certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    if kind is Kind.FLOOR:
        from tests.bench.admission import floor

        return floor.serving(tls)
    from tests.bench.admission import ours

    return ours.serving(tls, pools)


async def _main(kind: Kind, certificate: Path, pools: int) -> None:
    async with choose(kind, certificate, pools) as port:
        print(port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(Kind(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
