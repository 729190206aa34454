"""Chooses the ports of a cluster: one block, so that two clusters share none.

Ports are below Linux's range for outgoing connections, which could take one between the check and
its use.
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
    """A block of ports on 127.0.0.1 that starts at ``first``."""

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
        """Port of the admission webhook of the operator under development."""
        return self.first + 7

    @property
    def services(self) -> str:
        """Abstract unix socket by which the API server reaches Services."""
        return f"@gpushare-devcluster-{self.first}"

    @property
    def spare(self) -> range:
        """Ports for other programs beside the cluster: metrics of each process, a proxy."""
        return range(self.first + 8, self.first + _SIZE)


def is_free(port: int) -> bool:
    """Tell whether a server could listen on 127.0.0.1:``port`` now."""
    with socket.socket() as probe:
        # As Go's listeners do: a port in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def choose_ports(choice: random.Random, *, free: Callable[[int], bool] = is_free) -> Ports:
    """Choose a block of free ports. Raises :class:`ClusterError` if none is found."""
    starts = range(_FIRST, _LAST - _SIZE + 2, _SIZE)
    for first in choice.sample(starts, _ATTEMPTS):
        if all(free(port) for port in range(first, first + _SIZE)):
            return Ports(first)
    raise ClusterError(
        f"Found no {_SIZE} free neighbouring ports between {_FIRST} and {_LAST}: "
        "end clusters that are no longer needed (`make cluster-down`)."
    )
