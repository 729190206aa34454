"""Cuts an object to the fields that are kept of it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Shape = Mapping[str, Any]
"""By field what is kept of it: a type (its value as it is), a shape, a list
with one shape (of each item that), `Items`, or a function that returns what is kept."""


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a list whose `field` has one of these values; nothing where there are none."""

    shape: Shape
    field: str
    values: Collection[str]


class MalformedFieldError(ValueError):
    """A value that the API does not have there; the message says which, from the object on."""


def keep(value: Any, kept: Any) -> Any:
    """Cut a value to what is kept of it; None for nothing. null counts as left out.

    Raises `MalformedFieldError`.
    """
    if value is None and kept is not required:
        return None
    match kept:
        case type():
            return _expect(value, kept)
        case Mapping():
            return _keep_fields(_expect(value, dict), kept)
        case [shape]:
            return _keep_items(_expect(value, list), shape)
        case Items(shape, field, values):
            # Others may have what nobody reads, and what the API server lets pass all the same.
            items = [item for item in _expect(value, list) if _has(item, field, values)]
            return _keep_items(items, shape) or None
    try:
        return kept(value)
    except ValueError as error:
        raise MalformedFieldError(f": {error}") from error


def _keep_fields(value: Any, shape: Shape) -> dict[str, Any]:
    found = {}
    for name, part in shape.items():
        try:
            field = keep(value.get(name), part)
        except MalformedFieldError as error:
            raise MalformedFieldError(f".{name}{error}") from error
        if field is not None:
            found[name] = field
    return found


def _keep_items(items: Any, shape: Any) -> list[Any]:
    if None in items:
        raise MalformedFieldError("[]: an item is null")
    return [keep(item, shape) for item in items]


def _has(item: Any, field: str, values: Collection[str]) -> bool:
    """Tell whether the field has one of `values`; True for what is no object, to show the fault."""
    if not isinstance(item, dict):
        return True
    value = item.get(field)
    return isinstance(value, str) and value in values


def _expect(value: Any, kind: type) -> Any:
    # To isinstance true is a number.
    if type(value) is not kind:
        raise MalformedFieldError(f": expected {kind.__name__}, got {type(value).__name__}")
    return value


def required(value: Any) -> str:
    """Check text that every such object must have."""
    if not isinstance(value, str) or not value:
        raise ValueError("expected text that is not empty")
    return value


def time(value: Any) -> str:
    """Check text that is a time."""
    if not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("expected a time with its zone")
    return value


def texts(value: Any) -> dict[str, str] | None:
    """Check a map of texts, such as labels."""
    return keep_entries(value, ("",), str)


def keep_entries(
    value: Any, prefixes: tuple[str, ...], kinds: type | tuple[type, ...]
) -> dict[str, Any] | None:
    """Keep the entries of a map with these prefixes; their values must be of these types."""
    found = {key: each for key, each in _expect(value, dict).items() if key.startswith(prefixes)}
    for key, each in found.items():
        if not isinstance(each, kinds):
            raise ValueError(f"{key} has the invalid value {each!r}")
    return found or None
