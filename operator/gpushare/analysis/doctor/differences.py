"""Compares an object of the API server with the expected one, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MOST_SHOWN = 80
"""Characters of a value that is shown; of a longer one only that it differs."""
_NAMES = ("name", "key")
"""Fields that identify an item of a list; an item without them is identified by its index."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field, by its keys from the top on; None stands for what is not there."""

    path: tuple[str, ...]
    expected: Any
    found: Any

    def __str__(self) -> str:
        field = ".".join(self.path)
        expected, found = (f"{value}".replace("'", "") for value in (self.expected, self.found))
        if self.found is None:
            return f"{field} is missing"
        if self.expected is None:
            return f"{field} is set, but not expected"
        if len(expected) > _MOST_SHOWN or len(found) > _MOST_SHOWN:
            return f"{field} differs from the expected value"
        return f"{field} is {found}, expected {expected}"


def find_differences(expected: Any, found: Any, path: tuple[str, ...] = ()) -> Iterator[Difference]:
    """Yield each field in which `found` differs from `expected`, as deep as both have it."""
    mine, its = _by_name(expected), _by_name(found)
    if mine is None or its is None:
        if expected != found:
            yield Difference(path, expected, found)
        return
    for key in dict.fromkeys((*mine, *its)):
        yield from find_differences(mine.get(key), its.get(key), (*path, str(key)))


def _by_name(value: Any) -> Mapping[Any, Any] | None:
    """Return the parts of a mapping, or of a list of them; None for all else."""
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        return None
    for key in _NAMES:
        if all(key in each for each in value):
            return {each[key]: each for each in value}
    return dict(enumerate(value))
