"""Finds the user of the program at the other end of a connection within this machine."""

import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Linux's connections, with the user of each ("proc_net_tcp" in the kernel's documentation); the
second one is missing where IPv6 is switched off."""
ROOT = 0
_ESTABLISHED = "01"
"""State of an open connection: of one that its program has closed the kernel shows no user."""

Place = tuple[str, int]
"""An IPv4 address and a port."""


def is_own(peer: Place, here: Place) -> bool:
    """Tell whether the program connected from `peer` to `here` is this user's, or root's.

    True where the system does not show that; False where it does not show this connection.
    """
    if sys.platform != "linux":
        return True
    return any(find_user(_read(table), peer, here) in (os.getuid(), ROOT) for table in TABLES)


def find_user(table: Iterable[str], peer: Place, here: Place) -> int | None:
    """Find the UID of the program that has connected from `peer` to `here`, if the table has it."""
    # An IPv6 socket, too, may have made the connection.
    mapped = "0" * 16 + _spell(b"\0\0\xff\xff")
    wanted = [(before + _name(peer), before + _name(here)) for before in ("", mapped)]
    for row in table:
        _, near, far, state, *_, user = row.split()[:8]
        if state == _ESTABLISHED and (near, far) in wanted:
            return int(user)
    return None


def _read(table: Path) -> list[str]:
    """Return the rows of a table, without the heading."""
    try:
        return table.read_text().splitlines()[1:]
    except OSError:
        return []


def _name(place: Place) -> str:
    return f"{_spell(socket.inet_aton(place[0]))}:{place[1]:04X}"


def _spell(four: bytes) -> str:
    """Format an address as the tables have it: a word in the machine's own byte order."""
    return f"{int.from_bytes(four, sys.byteorder):08X}"
