"""CPU and memory: what a node has for pods, and what a pod requests."""

from functools import lru_cache
from math import ceil, inf
from typing import NamedTuple

from gpushare.api.k8s.resources.quantity import parse_exactly

_REMEMBERED = 1024
"""Quantities that are not parsed again: nodes and pods that are alike have the same."""


class HostResources(NamedTuple):
    """CPU and memory."""

    cpu_millis: float = inf
    memory_gib: float = inf
    """Of a node rounded up, of a pod rounded down: nodes of one machine type differ by some KiB."""


UNLIMITED = HostResources()
NO_REQUEST = HostResources(0, 0)


@lru_cache(_REMEMBERED)
def parse_allocatable(cpu: str, memory: str) -> HostResources:
    """Parse a node's; what it does not tell of is without limit."""
    millis, in_bytes = parse_scaled(cpu, 1000), parse_scaled(memory, 1)
    return HostResources(
        inf if millis is None else millis, inf if in_bytes is None else -(-in_bytes // 2**30)
    )


@lru_cache(_REMEMBERED)
def parse_scaled(quantity: str, scale: int) -> int | None:
    """Parse a quantity in parts of which `scale` make one; None if it is none."""
    amount = parse_exactly(quantity)
    return None if amount is None else ceil(amount * scale)
