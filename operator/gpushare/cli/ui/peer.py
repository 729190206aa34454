"""Whose program is at the other end of a connection within this machine."""

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
"""Of a connection that its program has closed the user is not told any more."""
_MAPPED = b"\0\0\0\0\0\0\0\0\0\0\xff\xff"
"""What an IPv4 address has before it where an IPv6 socket made the connection."""
_WORD = 4

Place = tuple[str, int]
"""An IPv4 address and a port."""


def is_own(peer: Place, here: Place) -> bool:
    """Whether the program that has connected from `peer` to `here` is this user's, or root's.

    True where the system is none that tells; False where it does not tell of this connection.
    """
    if sys.platform != "linux":
        return True
    return any(find_user(_read(table), peer, here) in (os.getuid(), ROOT) for table in TABLES)


def find_user(table: Iterable[str], peer: Place, here: Place) -> int | None:
    """UID of the program that has connected from `peer` to `here`, if it is in the table."""
    wanted = [(_spell(peer, before), _spell(here, before)) for before in (b"", _MAPPED)]
    for line in table:
        _, near, far, state, *_, user = line.split()[:8]
        if state == _ESTABLISHED and (near, far) in wanted:
            return int(user)
    return None


def _read(table: Path) -> list[str]:
    """Its lines without the heading."""
    try:
        return table.read_text().splitlines()[1:]
    except OSError:
        return []


def _spell(place: Place, before: bytes) -> str:
    """As the tables have it: words of the machine's own byte order."""
    address = before + socket.inet_aton(place[0])
    words = (address[start : start + _WORD] for start in range(0, len(address), _WORD))
    spelt = "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    return f"{spelt}:{place[1]:04X}"
