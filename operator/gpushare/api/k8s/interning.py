"""Keeps equal values of many objects once: tens of thousands of records live in memory."""

from collections.abc import Hashable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

_KEPT = 4096
"""Different values of one kind that are kept once; the rest are kept per object."""

Item = TypeVar("Item", bound=Hashable)
Key = TypeVar("Key", bound=Hashable)


@lru_cache(_KEPT)
def share(value: Item) -> Item:
    """Return the first value that was equal to this one."""
    return value


@lru_cache(_KEPT)
def share_mapping(items: tuple[tuple[Key, Item], ...]) -> Mapping[Key, Item]:
    """Return the mapping of these items, one for all that have the same."""
    return MappingProxyType(dict(items))
