"""Keeps the sum of many values up to date: a change adds up one chunk, then the chunks' sums."""

from collections.abc import Callable
from functools import reduce
from typing import Generic, TypeVar

S = TypeVar("S")
CHUNK = 64
"""Average number of values in a chunk, at most."""


class ChunkedFold(Generic[S]):
    """The sum of one value for each key, by an `add` that is associative and commutative."""

    def __init__(self, zero: S, add: Callable[[S, S], S]) -> None:
        self._zero, self._add = zero, add
        self._count = 0
        self._chunks: list[dict[str, S]] = [{}]
        self._sums: list[S | None] = [None]
        """Sum of each chunk; None where a value has changed since."""
        self._total: S | None = zero

    def put(self, key: str, value: S) -> None:
        """Set the value of `key`."""
        index = hash(key) % len(self._chunks)
        chunk = self._chunks[index]
        if chunk.get(key) == value:
            return
        self._count += key not in chunk
        chunk[key] = value
        self._sums[index] = self._total = None
        if self._count > CHUNK * len(self._chunks):
            self._split()

    def remove(self, key: str) -> None:
        """Remove the value of `key`, if it has one."""
        index = hash(key) % len(self._chunks)
        if self._chunks[index].pop(key, None) is not None:
            self._count -= 1
            self._sums[index] = self._total = None

    @property
    def total(self) -> S:
        """The sum of all values."""
        if self._total is None:
            total = self._zero
            for index, known in enumerate(self._sums):
                if (part := known) is None:
                    part = reduce(self._add, self._chunks[index].values(), self._zero)
                    self._sums[index] = part
                total = self._add(total, part)
            self._total = total
        return self._total

    def _split(self) -> None:
        values = [each for chunk in self._chunks for each in chunk.items()]
        count = 2 * len(self._chunks)
        self._chunks, self._sums = [{} for _ in range(count)], [None] * count
        for key, value in values:
            self._chunks[hash(key) % count][key] = value
