"""Keeps the sum of many values up to date: a change adds up one chunk, then the chunks' sums."""

from collections.abc import Callable
from typing import Generic, TypeVar

S = TypeVar("S")
CHUNK = 64
"""Average number of values in a chunk, at most."""


class ChunkedFold(Generic[S]):
    """The sum of one value for each key, by an `add` that is associative and commutative."""

    def __init__(self, zero: S, add: Callable[[S, S], S]) -> None:
        self._zero, self._add = zero, add
        self._values: dict[str, S] = {}
        self._chunks: list[set[str]] = [set()]
        self._sums: list[S | None] = [None]
        """Sum of each chunk; None where a value has changed since."""
        self._total: S | None = zero

    def put(self, key: str, value: S) -> None:
        """Set the value of `key`."""
        if self._values.get(key) == value:
            return
        self._values[key] = value
        if len(self._values) > CHUNK * len(self._chunks):
            self._split()
        self._touch(key).add(key)

    def remove(self, key: str) -> None:
        """Remove the value of `key`, if it has one."""
        if self._values.pop(key, None) is not None:
            self._touch(key).remove(key)

    @property
    def total(self) -> S:
        """The sum of all values."""
        if self._total is None:
            total = self._zero
            for index, known in enumerate(self._sums):
                if (part := known) is None:
                    part = self._sums[index] = self._add_up(self._chunks[index])
                total = self._add(total, part)
            self._total = total
        return self._total

    def _add_up(self, chunk: set[str]) -> S:
        part = self._zero
        for key in chunk:
            part = self._add(part, self._values[key])
        return part

    def _touch(self, key: str) -> set[str]:
        index = hash(key) % len(self._chunks)
        self._sums[index] = self._total = None
        return self._chunks[index]

    def _split(self) -> None:
        count = 2 * len(self._chunks)
        self._chunks = [set() for _ in range(count)]
        self._sums = [None] * count
        for key in self._values:
            self._chunks[hash(key) % count].add(key)
