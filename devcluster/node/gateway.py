"""Forwards ports of the machine on 127.0.0.1 to equal ports in a node's network.

``python -m devcluster.node.gateway PID PORT...`` listens in its own network and connects in that of
the process PID: a socket stays in the network where it was made.
"""

import asyncio
import contextlib
import ctypes
import os
import socket
import sys
from functools import partial
from pathlib import Path

from devcluster.relay import Connection, relay

_CLONE_NEWNET = 0x40000000
_LOCAL = "127.0.0.1"


def enter_network(pid: int) -> None:
    """Make later sockets of this process in the network of `pid`. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{pid}/ns/net").open() as network:
        if libc.setns(network.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


async def _hand_on(port: int, *outer: *Connection) -> None:
    with contextlib.suppress(OSError), contextlib.closing(outer[1]):
        await relay(outer, await asyncio.open_connection(_LOCAL, port))


async def _serve(listening: dict[int, socket.socket]) -> None:
    servers = [
        await asyncio.start_server(partial(_hand_on, port), sock=sock)
        for port, sock in listening.items()
    ]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    """Forward connections until killed."""
    pid, *ports = map(int, sys.argv[1:])
    listening = {port: socket.create_server((_LOCAL, port)) for port in ports}
    enter_network(pid)
    asyncio.run(_serve(listening))


if __name__ == "__main__":
    main()
