"""Manifests in files, as a person keeps them, and written into a folder of their own."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from gpushare.cli.exits import CommandError, Exit
from gpushare.cli.manifests import STDIN

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file's text, and the names under which it is shown and written."""

    shown: str
    place: str
    """Relative to the folder that was named."""
    text: str


def read_manifest_files(paths: Sequence[str], *, recursive: bool) -> tuple[ManifestFile, ...]:
    """Of a folder those that kubectl reads: *.yaml, *.yml and *.json; `-` is standard input.

    Raises `CommandError`.
    """
    try:
        files = [file for path in paths for file in _read(path, recursive)]
    except OSError as error:
        raise CommandError(Exit.MANIFEST, f"{error.filename}: {error.strerror}") from error
    by_place: dict[str, str] = {}
    for file in files:
        if file.place in by_place:
            raise CommandError(
                Exit.USAGE, f"{by_place[file.place]} and {file.shown} are both {file.place}"
            )
        by_place[file.place] = file.shown
    return tuple(files)


def _read(path: str, recursive: bool) -> Iterator[ManifestFile]:
    folder = Path(path)
    if folder == STDIN:
        text = _decode(sys.stdin.buffer.read(), "standard input")
        yield ManifestFile("stdin", "stdin.yaml", text)
        return
    if not folder.is_dir():
        yield ManifestFile(folder.as_posix(), folder.name, _decode(folder.read_bytes(), path))
        return
    found = folder.rglob("*") if recursive else folder.iterdir()
    files = sorted(each for each in found if each.suffix in _SUFFIXES and each.is_file())
    if not files:
        raise CommandError(
            Exit.NOT_FOUND, f"{path} has no *.yaml, *.yml or *.json; -R looks in its folders too"
        )
    for file in files:
        place = file.relative_to(folder).as_posix()
        yield ManifestFile(file.as_posix(), place, _decode(file.read_bytes(), str(file)))


def _decode(text: bytes, name: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise CommandError(Exit.MANIFEST, f"{name} is no UTF-8 text: {error.reason}") from error


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Make `folder` with these files by their places: all of them, or nothing.

    Raises `CommandError` where it is there already and not empty.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CommandError(
                Exit.FAILURE, f"{folder} is there already; name a folder that is not, or is empty"
            )
        made = Path(mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            made.chmod(0o755)
            for place, text in texts.items():
                file = made / place
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text.encode())
            os.rename(made, folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except OSError as error:
        message = f"{folder} can't be written: {error.strerror}"
        raise CommandError(Exit.FAILURE, message) from error
