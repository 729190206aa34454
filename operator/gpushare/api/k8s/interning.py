"""Keeps equal values of many objects once: tens of thousands of records live in memory.

Only small values: a client that writes a node or a pod could fill the memory with large ones, which
stay when the object is gone.
"""

from collections.abc import Hashable, Mapping, Sized
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

MAX_ITEMS = 16
"""Of a collection that is kept once."""
_KEPT = 4096
"""Different values of one kind that are kept once; the rest are kept per object."""

Item = TypeVar("Item", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)


def share(value: Item) -> Item:
    """Return the first value that was equal to this one, where it is small."""
    is_large = isinstance(value, Sized) and len(value) > MAX_ITEMS
    shared: Item = value if is_large else _share(value)
    return shared


def share_mapping(items: tuple[tuple[Key, Item], ...]) -> Mapping[Key, Item]:
    """Return the mapping of these items, one for all that have the same few."""
    return _share_mapping(items) if len(items) <= MAX_ITEMS else MappingProxyType(dict(items))


@lru_cache(_KEPT)
def _share(value: Item) -> Item:
    return value


@lru_cache(_KEPT)
def _share_mapping(items: tuple[tuple[Key, Item], ...]) -> Mapping[Key, Item]:
    return MappingProxyType(dict(items))
