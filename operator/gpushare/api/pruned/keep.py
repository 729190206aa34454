"""Cuts an object to its kept fields."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Shape = Mapping[str, Any]
"""Kept parts by field: a type (the whole value), a shape, a list with one shape for its items,
`Items`, or a function that returns the kept part."""


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a list whose `field` has one of these values; None where there are none."""

    shape: Shape
    field: str
    values: Collection[str]


class MalformedFieldError(ValueError):
    """A value is invalid; the message has its path from the object on."""


def keep(value: Any, kept: Any) -> Any:
    """Cut a value to its kept part; None where nothing is kept, or for null.

    Raises `MalformedFieldError`.
    """
    if value is None and kept is not required:
        return None
    match kept:
        case type():
            return _expect(value, kept)
        case dict():
            return _keep_fields(_expect(value, dict), kept)
        case [shape]:
            return _keep_items(_expect(value, list), shape)
        case Items(shape, field, values):
            # Other items may be invalid, since nobody reads them and the API server accepts them.
            items = [item for item in _expect(value, list) if _has(item, field, values)]
            return _keep_items(items, shape) or None
    try:
        return kept(value)
    except ValueError as error:
        raise MalformedFieldError(f": {error}") from error


def _keep_fields(value: Any, shape: Shape) -> dict[str, Any]:
    fields = {}
    for name, part in shape.items():
        given = value.get(name)
        if given is None and part is not required:
            continue
        try:
            field = keep(given, part)
        except MalformedFieldError as error:
            raise MalformedFieldError(f".{name}{error}") from error
        if field is not None:
            fields[name] = field
    return fields


def _keep_items(items: Any, shape: Any) -> list[Any]:
    if None in items:
        raise MalformedFieldError("[]: an item is null")
    return [keep(item, shape) for item in items]


def _has(item: Any, field: str, values: Collection[str]) -> bool:
    """Tell whether a field has one of `values`; True for an invalid item, to report it."""
    if not isinstance(item, dict):
        return True
    value = item.get(field)
    return isinstance(value, str) and value in values


def _expect(value: Any, kind: type) -> Any:
    # Not isinstance, to which true is a number.
    if type(value) is not kind:
        raise MalformedFieldError(f": expected {kind.__name__}, got {type(value).__name__}")
    return value


def whole(value: Any) -> Any:
    """Keep a value of any type."""
    return value


def required(value: Any) -> str:
    """Check a required text. Raises ValueError."""
    if not isinstance(value, str) or not value:
        raise ValueError("expected text that is not empty")
    return value


def time(value: Any) -> str:
    """Check a time with its zone. Raises ValueError."""
    if not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("expected a time with its zone")
    return value


def texts(value: Any) -> dict[str, str] | None:
    """Check a map of texts, such as labels. Raises ValueError."""
    return keep_entries(value, ("",), str)


def keep_entries(
    value: Any, prefixes: tuple[str, ...], kinds: type | tuple[type, ...]
) -> dict[str, Any] | None:
    """Keep the entries with these prefixes. Raises ValueError for a value of other `kinds`."""
    kept = {key: each for key, each in _expect(value, dict).items() if key.startswith(prefixes)}
    for key, each in kept.items():
        if not isinstance(each, kinds):
            raise ValueError(f"{key} has the invalid value {each!r}")
    return kept or None
