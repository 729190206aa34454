"""Reads manifests from files or standard input, and the objects in them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from gpushare.api.documents import Document, parse_documents, parse_values
from gpushare.cli.exit_codes import CommandError, Exit

Json = dict[str, Any]
STDIN = Path("-")
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file's text, and the name under which it is shown."""

    shown: str
    text: str

    def parse(self) -> tuple[Document, ...]:
        """Parse the file's documents. Raises `CommandError` where it is no manifest."""
        with self._checking():
            documents = parse_documents(self.text)
            _check([each.raw for each in documents])
        return documents

    def parse_values(self) -> list[Any]:
        """Parse the values of the documents alone. Raises as `parse` does."""
        with self._checking():
            values = parse_values(self.text)
            _check(values)
        return values

    @contextmanager
    def _checking(self) -> Iterator[None]:
        try:
            yield
        except RecursionError as error:
            message = f"{self.shown} is not a manifest: it is nested too deeply"
            raise CommandError(Exit.MANIFEST, message) from error
        except (yaml.YAMLError, ValueError, TypeError) as error:
            hint = ". Render the template first" if "{{" in self.text else ""
            message = f"{self.shown} is not a manifest: {error}{hint}"
            raise CommandError(Exit.MANIFEST, message) from error


def _check(values: list[Any]) -> None:
    # A value that is part of itself is YAML, and no manifest.
    orjson.dumps(values, option=orjson.OPT_NON_STR_KEYS)


def read_manifest_files(paths: Sequence[Path], *, recursive: bool) -> tuple[ManifestFile, ...]:
    """Read files; of a folder those that kubectl reads, *.yaml, *.yml and *.json; `-` is stdin.

    Raises `CommandError`.
    """
    try:
        return tuple(file for path in paths for file in _read(path, recursive))
    except OSError as error:
        raise CommandError(Exit.MANIFEST, f"{error.filename}: {error.strerror}") from error


def _read(path: Path, recursive: bool) -> Iterator[ManifestFile]:
    if path == STDIN:
        text = _decode(sys.stdin.buffer.read(), "standard input")
        yield ManifestFile("stdin", text)
        return
    if not path.is_dir():
        yield ManifestFile(path.as_posix(), _decode(path.read_bytes(), str(path)))
        return
    found = path.rglob("*") if recursive else path.iterdir()
    files = sorted(each for each in found if each.suffix in _SUFFIXES and each.is_file())
    if not files:
        raise CommandError(
            Exit.NOT_FOUND, f"{path} has no *.yaml, *.yml or *.json. Use -R to search its folders"
        )
    for file in files:
        yield ManifestFile(file.as_posix(), _decode(file.read_bytes(), str(file)))


def _decode(text: bytes, name: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise CommandError(Exit.MANIFEST, f"{name} is not UTF-8 text: {error.reason}") from error


@dataclass(frozen=True, slots=True)
class Given:
    """An object, and where it stands."""

    raw: Json
    """The manifest; its `kind` is a string."""
    source: str
    """Name of the file, for messages."""

    @property
    def shown(self) -> str:
        """`kind/name` of the manifest, for messages."""
        meta = self.raw.get("metadata")
        name = (meta.get("name") or meta.get("generateName")) if isinstance(meta, dict) else None
        return f"{self.raw['kind']}/{name or '?'}"


def read_objects(paths: Sequence[Path], *, recursive: bool = False) -> tuple[Given, ...]:
    """Read the objects in these files and folders; Lists are split.

    Raises `CommandError` for what is no manifest, and for a file that can't be read.
    """
    files = read_manifest_files(paths, recursive=recursive)
    found = tuple(given for file in files for given in _flatten(file.parse_values(), file.shown))
    if not found:
        listed = ", ".join(file.shown for file in files)
        raise CommandError(Exit.MANIFEST, f"{listed} is not a manifest: it is empty")
    return found


def _flatten(objects: Sequence[Any], source: str) -> Iterator[Given]:
    for raw in objects:
        if not isinstance(raw, dict) or not isinstance(raw.get("kind"), str):
            message = f"{source} is not a manifest: a document is not an object with a kind"
            raise CommandError(Exit.MANIFEST, message)
        if raw["kind"].endswith("List") and isinstance(raw.get("items"), list):
            yield from _flatten(raw["items"], source)
        else:
            yield Given(raw, source)
