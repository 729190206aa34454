"""Objects that a person has in files, or pipes in."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpushare.cli.exits import CommandError, Exit

Json = dict[str, Any]

STDIN = Path("-")


@dataclass(frozen=True, slots=True)
class Given:
    """An object, and where it stands."""

    raw: Json
    """It has a `kind`, a string."""
    source: str
    """For messages: the file's name, or `standard input`."""

    @property
    def shown(self) -> str:
        """For messages: `kind/name`."""
        meta = self.raw.get("metadata")
        name = (meta.get("name") or meta.get("generateName")) if isinstance(meta, dict) else None
        return f"{self.raw['kind']}/{name or '?'}"


def read_objects(paths: Iterable[Path]) -> Iterator[Given]:
    """The objects in these files, YAML or JSON, `-` being standard input; Lists are taken apart.

    Raises `CommandError` for what is no manifest, and for a file that can't be read.
    """
    for path in paths:
        source = "standard input" if path == STDIN else str(path)
        try:
            text = sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
            documents = [each for each in yaml.safe_load_all(text) if each is not None]
        except OSError as error:
            raise CommandError(Exit.MANIFEST, f"{source}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise _broken(source, "it is no text") from error
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            # A date that is none is a ValueError.
            raise _broken(source, " ".join(str(error).split())) from error
        if not documents:
            raise _broken(source, "nothing is in it")
        yield from _flatten(documents, source)


def _flatten(objects: Sequence[Any], source: str) -> Iterator[Given]:
    for raw in objects:
        if not isinstance(raw, dict) or not isinstance(raw.get("kind"), str):
            raise _broken(source, "a document in it is no object with a kind")
        if raw["kind"].endswith("List") and isinstance(raw.get("items"), list):
            yield from _flatten(raw["items"], source)
        else:
            yield Given(raw, source)


def _broken(source: str, why: str) -> CommandError:
    return CommandError(Exit.MANIFEST, f"{source} is no manifest: {why}")
