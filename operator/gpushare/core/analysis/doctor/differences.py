"""Where an object of the API server is not as it was expected to be, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MOST_SHOWN = 80
"""Characters of a value that is shown; a longer one is only said to be another."""
_NAMES = ("name", "key")
"""By which of their fields the items of a list are known, if not by their place in it."""


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
            return f"{field} is there, and was not expected"
        if len(expected) > _MOST_SHOWN or len(found) > _MOST_SHOWN:
            return f"{field} is another one"
        return f"{field} is {found}, and {expected} was expected"


def find_differences(expected: Any, found: Any, path: tuple[str, ...] = ()) -> Iterator[Difference]:
    """Each field in which `found` is not as `expected`, the deepest that both have above it."""
    mine, its = _by_name(expected), _by_name(found)
    if mine is None or its is None:
        if expected != found:
            yield Difference(path, expected, found)
        return
    for key in dict.fromkeys((*mine, *its)):
        yield from find_differences(mine.get(key), its.get(key), (*path, str(key)))


def _by_name(value: Any) -> Mapping[Any, Any] | None:
    """The parts of a mapping, or of a list of them; None for all else."""
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        return None
    for key in _NAMES:
        if all(key in each for each in value):
            return {each[key]: each for each in value}
    return dict(enumerate(value))
