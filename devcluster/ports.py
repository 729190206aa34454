"""The ports of a cluster: one block of neighbours, so that two clusters share none.

They lie below the range that Linux gives to outgoing connections, which could take one away
between the look and the listening.
"""

import random
import socket
from collections.abc import Callable
from dataclasses import dataclass

from devcluster.errors import ClusterError

_FIRST = 21000
_LAST = 29999
_SIZE = 20
_ATTEMPTS = 50


@dataclass(frozen=True)
class Ports:
    """A block that starts at ``first``; all listen on 127.0.0.1."""

    first: int

    @property
    def etcd(self) -> int:
        return self.first

    @property
    def etcd_peer(self) -> int:
        return self.first + 1

    @property
    def apiserver(self) -> int:
        return self.first + 2

    @property
    def controller_manager(self) -> int:
        return self.first + 3

    @property
    def scheduler(self) -> int:
        return self.first + 4

    @property
    def kwok(self) -> int:
        return self.first + 5

    @property
    def simulator(self) -> int:
        return self.first + 6

    @property
    def webhook(self) -> int:
        """Where the operator under development serves its admission webhook."""
        return self.first + 7

    @property
    def services(self) -> str:
        """Unix socket by which the API server reaches Services: an abstract one, without a file."""
        return f"@gpushare-devcluster-{self.first}"

    @property
    def spare(self) -> range:
        """For whatever else runs beside the cluster: metrics of each process, a proxy."""
        return range(self.first + 8, self.first + _SIZE)


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:``port`` now."""
    with socket.socket() as probe:
        # As Go's listeners do: a port in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_ports(choice: random.Random, *, free: Callable[[int], bool] = is_free) -> Ports:
    """A block whose ports are all free. Raises :class:`ClusterError` if none turns up."""
    starts = range(_FIRST, _LAST - _SIZE + 2, _SIZE)
    for first in choice.sample(starts, _ATTEMPTS):
        if all(free(port) for port in range(first, first + _SIZE)):
            return Ports(first)
    raise ClusterError(
        f"Found no {_SIZE} free neighbouring ports between {_FIRST} and {_LAST}: "
        "end clusters that are no longer needed (`make cluster-down`)."
    )
