"""Finds the fields of a pool that an apply of a manifest keeps, because other managers own them.

An apply by the server takes away what the file left out of what its own manager alone owns
("Server-Side Apply" in the Kubernetes documentation), one by kubectl what was in the manifest that
it applied before ("Declarative Management of Kubernetes Objects Using Configuration Files").
Under which name a file will be applied is unknown: the owner of a pool's selector or names, one of
which every file has, counts as one who applies files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gpushare import names

Json = dict[str, Any]
Path = tuple[str, ...]
_MEMBERS = (("nodes", "selector"), ("nodes", "names"))


@dataclass(frozen=True, slots=True)
class KeptField:
    """A field of a pool's spec that its file leaves out, and who owns it."""

    path: Path
    manager: str
    value: Any


def find_kept_fields(live: Json, given: Json) -> tuple[KeptField, ...]:
    """Find those of the pool `live` that an apply of the manifest `given` keeps."""
    owned = [
        (entry, frozenset(_list_leaves((entry.get("fieldsV1") or {}).get("f:spec") or {})))
        for entry in live["metadata"].get("managedFields") or ()
    ]
    appliers = [each for each in owned if any(path[:2] in _MEMBERS for path in each[1])]
    updaters = [each for each in appliers if each[0].get("operation") != "Apply"]
    # Who applies gives up its part of what two own, and who updates takes it away.
    taken = {path for _, paths in updaters for path in paths}
    before = _read_last_applied(live) if updaters else None
    kept = {
        path: KeptField(path, entry.get("manager") or "another manager", value)
        for entry, paths in owned
        if (entry, paths) not in appliers
        for path in paths - taken
        if not _is_dropped(before, given.get("spec"), path)
        and _find(given.get("spec"), path) is None
        and (value := _find(live["spec"], path)) is not None
    }
    return tuple(kept[path] for path in sorted(kept))


def keep_fields(given: Json, kept: Sequence[KeptField]) -> Json:
    """Return the manifest `given` with these fields in it."""
    spec = given["spec"]
    for field in kept:
        spec = _put(spec, field.path, field.value)
    return {**given, "spec": spec}


def _list_leaves(fields: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the paths of a `fieldsV1`'s leaves; a list is one, whoever owns which of its items."""
    for key, below in fields.items():
        if not key.startswith("f:"):
            continue
        name = key.removeprefix("f:")
        inner = list(_list_leaves(below))
        yield from ((name, *path) for path in inner)
        if not inner:
            yield (name,)


def _read_last_applied(live: Json) -> Any:
    """Return the spec that kubectl applied last; None where it was not applied so."""
    text = (live["metadata"].get("annotations") or {}).get(names.ANNOTATION_LAST_APPLIED)
    try:
        return orjson.loads(text or "null")["spec"]
    except (ValueError, TypeError, KeyError):
        return None


def _is_dropped(before: Any, spec: Any, path: Path) -> bool:
    """Tell whether the last file had the field, or what holds it, and this one has not."""
    holders = [path[:depth] for depth in range(1, len(path) + 1)]
    return any(_find(before, each) is not None and _find(spec, each) is None for each in holders)


def _find(value: Any, path: Path) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _put(value: Json | None, path: Path, leaf: Any) -> Json:
    first, *rest = path
    inside = (value or {}).get(first)
    return {**(value or {}), first: _put(inside, tuple(rest), leaf) if rest else leaf}
