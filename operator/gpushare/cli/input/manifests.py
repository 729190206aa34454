"""Objects that a person has in files, or pipes in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifest_files import read_manifest_files

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """An object, and where it stands."""

    raw: Json
    """It has a `kind`, a string."""
    source: str
    """For messages: the file's name."""

    @property
    def shown(self) -> str:
        """For messages: `kind/name`."""
        meta = self.raw.get("metadata")
        name = (meta.get("name") or meta.get("generateName")) if isinstance(meta, dict) else None
        return f"{self.raw['kind']}/{name or '?'}"


def read_objects(paths: Sequence[Path], *, recursive: bool = False) -> tuple[Given, ...]:
    """The objects in these files and folders; Lists are taken apart.

    Raises `CommandError` for what is no manifest, and for a file that can't be read.
    """
    files = read_manifest_files(paths, recursive=recursive)
    found = tuple(
        given
        for file in files
        for given in _flatten([document.raw for document in file.parse()], file.shown)
    )
    if not found:
        listed = ", ".join(file.shown for file in files)
        raise CommandError(Exit.MANIFEST, f"{listed} is no manifest: nothing is in it")
    return found


def _flatten(objects: Sequence[Any], source: str) -> Iterator[Given]:
    for raw in objects:
        if not isinstance(raw, dict) or not isinstance(raw.get("kind"), str):
            message = f"{source} is no manifest: a document in it is no object with a kind"
            raise CommandError(Exit.MANIFEST, message)
        if raw["kind"].endswith("List") and isinstance(raw.get("items"), list):
            yield from _flatten(raw["items"], source)
        else:
            yield Given(raw, source)
