"""Shares equal values of tens of thousands of records in memory.

Only small values are shared, since they stay in memory when their objects are gone: clients could
fill it with large values of nodes or pods.
"""

from collections.abc import Hashable, Mapping, Sized
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

MAX_ITEMS = 16
"""Limit of the items of a shared collection."""
_KEPT = 4096
"""Limit of different shared values of one kind; others are kept per object."""

Item = TypeVar("Item", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)


def share(value: Item) -> Item:
    """Return one object for all small values that are equal to `value`."""
    is_large = isinstance(value, Sized) and len(value) > MAX_ITEMS
    shared: Item = value if is_large else _share(value)
    return shared


def share_mapping(items: tuple[tuple[Key, Item], ...]) -> Mapping[Key, Item]:
    """Return one mapping for all small equal `items`."""
    return _share_mapping(items) if len(items) <= MAX_ITEMS else MappingProxyType(dict(items))


@lru_cache(_KEPT)
def _share(value: Item) -> Item:
    return value


@lru_cache(_KEPT)
def _share_mapping(items: tuple[tuple[Key, Item], ...]) -> Mapping[Key, Item]:
    return MappingProxyType(dict(items))
