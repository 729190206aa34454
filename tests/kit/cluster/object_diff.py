"""What is different between two states of an object: every leaf, and who owned it."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def find_differences(before: Json, after: Json) -> dict[str, tuple[Any, Any]]:
    """By path, the value before and after; None stands for what is not there.

    Of managedFields who owned what is compared, not when it was written: a path
    `managedFields/MANAGER/OPERATION/SUBRESOURCE/FIELD` has the value True.
    """
    old, new = dict(_flatten(before)), dict(_flatten(after))
    return {
        path: (old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    }


def _flatten(item: Json) -> Iterator[tuple[str, Any]]:
    rest = {**item, "metadata": {k: v for k, v in item["metadata"].items() if k != "managedFields"}}
    yield from _leaves("", rest)
    for entry in item["metadata"]["managedFields"]:
        writer = (entry["manager"], entry["operation"], entry.get("subresource", "-"))
        for path, _ in _leaves("", entry["fieldsV1"]):
            yield f"managedFields/{'/'.join(writer)}{path}", True


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{path}/{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            # A condition is known by its type, wherever it stands.
            name = inner.get("type", index) if isinstance(inner, dict) else index
            yield from _leaves(f"{path}/{name}", inner)
    else:
        yield path, value
