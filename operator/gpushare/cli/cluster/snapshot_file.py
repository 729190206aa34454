"""Writes a cluster to a file, and reads it, for answers without the cluster."""

import os
from collections import Counter
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import orjson

from gpushare import __version__
from gpushare.api.pruned.cluster import (
    REFUSABLE,
    Cluster,
    Json,
    Kind,
    MalformedObjectError,
    keep_object,
)
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.output.answer import print_text

SNAPSHOT_KIND = "GPUShareSnapshot"
VERSION = 1
"""Version of the format; it is raised when an older program would misread a new snapshot."""
STDOUT = Path("-")


def build_snapshot(cluster: Cluster) -> bytes:
    """Build the file of `cluster`, which holds all kinds."""
    document: Json = {
        "kind": SNAPSHOT_KIND,
        "version": VERSION,
        "takenAt": cluster.taken_at.isoformat(timespec="seconds"),
        "takenBy": f"gpushare {__version__}",
    }
    for kind in Kind:
        document[str(kind)] = None if kind in cluster.unread else getattr(cluster, kind)
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def parse_snapshot(text: bytes, name: str) -> Cluster:
    """Parse the file `name`. Raises `CommandError` for what is no snapshot of this program."""
    try:
        document: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _broken(name, f"it is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != SNAPSHOT_KIND:
        raise _broken(name, f"it is not a {SNAPSHOT_KIND}")
    version = document.get("version")
    if type(version) is not int:
        raise _broken(name, f"version is not a whole number but {version!r}")
    if version != VERSION:
        raise CommandError(
            Exit.SNAPSHOT,
            f"{name} is a snapshot of version {version}, but this program reads "
            f"version {VERSION}. Take it again, or use the program that took it "
            f"({document.get('takenBy')})",
        )
    try:
        taken_at = datetime.fromisoformat(document["takenAt"])
        if taken_at.tzinfo is None:
            raise ValueError("it has no time zone")
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(name, f"takenAt is not a time: {error}") from error
    found = {kind: _parse_items(document, kind, name) for kind in Kind}
    unread = {}
    for kind in REFUSABLE:
        if found[kind] is None:
            del found[kind]
            why = (
                "its author could not list them" if kind in document else "an older program took it"
            )
            unread[kind] = f"the snapshot has none, because {why}"
    return Cluster(taken_at, unread=unread, **found)  # type: ignore[arg-type]


def _parse_items(document: Json, kind: Kind, name: str) -> tuple[Json, ...] | None:
    items = document.get(kind)
    optional = kind in (Kind.DEPLOYMENTS, *REFUSABLE)
    # Pools are null where their API is missing; left out they are where the file is broken.
    if items is None and (optional or (kind is Kind.POOLS and kind in document)):
        return None
    if not isinstance(items, list):
        raise _broken(name, f"{kind} is not a list")
    try:
        kept = [raw for each in items if (raw := keep_object(kind, each)) is not None]
    except MalformedObjectError as error:
        raise _broken(name, str(error)) from error
    places = (f"{raw['metadata'].get('namespace', '')}/{raw['metadata']['name']}" for raw in kept)
    place, times = next(iter(Counter(places).most_common(1)), ("", 0))
    if times > 1:
        raise _broken(name, f"{kind} has {place.removeprefix('/')} {times} times")
    return tuple(kept)


def _broken(name: str, why: str) -> CommandError:
    return CommandError(Exit.SNAPSHOT, f"{name} is broken: {why}")


def write_file(path: Path, text: bytes) -> None:
    """Write it whole or not at all, for the owner's eyes only; `-` is standard output.

    What a link leads to is written, and what is no file, such as a pipe, is written into. Raises
    `CommandError`.
    """
    if path == STDOUT:
        print_text(text.decode())
        return
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text)
        else:
            _replace_file(Path(os.path.realpath(path)), text)
    except OSError as error:
        message = f"{path} can't be written: {error.strerror}"
        raise CommandError(Exit.FAILURE, message) from error


def _replace_file(path: Path, text: bytes) -> None:
    with NamedTemporaryFile(dir=path.parent, prefix=".gpushare.", delete=False) as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(file.name)
            raise
