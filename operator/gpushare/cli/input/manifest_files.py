"""Manifests in files, as a person keeps them, and written into a folder of their own."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp

import orjson
import yaml

from gpushare.api.documents import Document, parse_documents
from gpushare.cli.exit_codes import CommandError, Exit

STDIN = Path("-")
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file's text, and the names under which it is shown and written."""

    shown: str
    place: str
    """Relative to the folder that was named."""
    text: str

    def parse(self) -> tuple[Document, ...]:
        """Its documents. Raises `CommandError` where it is no manifest."""
        try:
            documents = parse_documents(self.text)
            # A value that is part of itself is YAML, and no manifest.
            orjson.dumps([each.raw for each in documents], option=orjson.OPT_NON_STR_KEYS)
        except RecursionError as error:
            message = f"{self.shown} is no manifest: it is nested too deep"
            raise CommandError(Exit.MANIFEST, message) from error
        except (yaml.YAMLError, ValueError, TypeError) as error:
            hint = "; a template is to be rendered first" if "{{" in self.text else ""
            message = f"{self.shown} is no manifest: {error}{hint}"
            raise CommandError(Exit.MANIFEST, message) from error
        return documents


def read_manifest_files(paths: Sequence[Path], *, recursive: bool) -> tuple[ManifestFile, ...]:
    """Of a folder those that kubectl reads: *.yaml, *.yml and *.json; `-` is standard input.

    Raises `CommandError`.
    """
    try:
        return tuple(file for path in paths for file in _read(path, recursive))
    except OSError as error:
        raise CommandError(Exit.MANIFEST, f"{error.filename}: {error.strerror}") from error


def _read(path: Path, recursive: bool) -> Iterator[ManifestFile]:
    if path == STDIN:
        text = _decode(sys.stdin.buffer.read(), "standard input")
        yield ManifestFile("stdin", "stdin.yaml", text)
        return
    if not path.is_dir():
        yield ManifestFile(path.as_posix(), path.name, _decode(path.read_bytes(), str(path)))
        return
    found = path.rglob("*") if recursive else path.iterdir()
    files = sorted(each for each in found if each.suffix in _SUFFIXES and each.is_file())
    if not files:
        raise CommandError(
            Exit.NOT_FOUND, f"{path} has no *.yaml, *.yml or *.json; -R looks in its folders too"
        )
    for file in files:
        place = file.relative_to(path).as_posix()
        yield ManifestFile(file.as_posix(), place, _decode(file.read_bytes(), str(file)))


def _decode(text: bytes, name: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise CommandError(Exit.MANIFEST, f"{name} is no UTF-8 text: {error.reason}") from error


def write_folder(folder: Path, files: Sequence[ManifestFile]) -> None:
    """Make `folder` with these files at their places: all of them, or nothing.

    Raises `CommandError` where it is there already and not empty, two have one place, or one has
    none in it.
    """
    by_place: dict[str, ManifestFile] = {}
    for file in files:
        place = PurePosixPath(file.place)
        # Of what a cluster says it is made of the names there.
        if place.is_absolute() or ".." in place.parts or "\0" in file.place:
            raise CommandError(Exit.FAILURE, f"{file.shown} would be written outside {folder}")
        if (other := by_place.setdefault(file.place, file)) is not file:
            message = f"{other.shown} and {file.shown} are both {file.place}"
            raise CommandError(Exit.USAGE, message)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CommandError(
                Exit.FAILURE, f"{folder} is there already; name a folder that is not, or is empty"
            )
        made = Path(mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            made.chmod(0o755)
            for file in files:
                path = made / file.place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.text.encode())
            os.rename(made, folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except OSError as error:
        message = f"{folder} can't be written: {error.strerror}"
        raise CommandError(Exit.FAILURE, message) from error
