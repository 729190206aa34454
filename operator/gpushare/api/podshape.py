"""Guards for a Pod's JSON from outside: each field has the shape that the API gives it, or null."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class MalformedPodError(ValueError):
    """Not a Pod: the message says which field is not what the API has there."""


def parse_mapping(value: object, path: str) -> Mapping[str, Any]:
    """An object; empty for null."""
    if value is None:
        return _NOTHING
    if not isinstance(value, dict):
        raise MalformedPodError(f"{path} must be an object, not {type(value).__name__}")
    return value


def parse_strings(value: object, path: str) -> Mapping[str, str]:
    """An object whose values are text, such as labels; empty for null."""
    strings = parse_mapping(value, path)
    for key, text in strings.items():
        if not isinstance(text, str):
            raise MalformedPodError(f"{path}: {key[:63]} must be text, not {type(text).__name__}")
    return strings


def parse_list(value: object, path: str) -> Sequence[Any]:
    """A list; empty for null."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise MalformedPodError(f"{path} must be a list, not {type(value).__name__}")
    return value


def parse_mappings(value: object, path: str) -> Sequence[Mapping[str, Any]]:
    """A list of objects; empty for null."""
    items = parse_list(value, path)
    return [parse_mapping(item, path) for item in items] if items else ()
