"""CPU and memory of nodes, and of requests of pods."""

from functools import lru_cache
from math import ceil, inf
from typing import NamedTuple

from gpushare.api.k8s.resources.quantity import parse_exactly

_REMEMBERED = 1024
"""Limit of quantities that are cached, since similar nodes and pods have equal ones."""


class HostResources(NamedTuple):
    """CPU and memory."""

    cpu_millis: float = inf
    memory_gib: float = inf
    """Memory, rounded up for a node and down for a pod: equal machines differ by some KiB."""


UNLIMITED = HostResources()
NO_REQUEST = HostResources(0, 0)


@lru_cache(_REMEMBERED)
def parse_allocatable(cpu: str, memory: str) -> HostResources:
    """Parse a node's allocatable CPU and memory; an invalid quantity is without limit."""
    millis, in_bytes = parse_scaled(cpu, 1000), parse_scaled(memory, 1)
    return HostResources(
        inf if millis is None else millis, inf if in_bytes is None else -(-in_bytes // 2**30)
    )


@lru_cache(_REMEMBERED)
def parse_scaled(quantity: str, scale: int) -> int | None:
    """Parse a quantity and multiply it by `scale`, rounded up; None for an invalid one."""
    amount = parse_exactly(quantity)
    return None if amount is None else ceil(amount * scale)
