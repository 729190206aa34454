"""Finds the context that is meant, in the files of a kubeconfig.

`kubernetes` takes the last of several current-contexts, where kubectl takes the first, looks for a
user's files beside those of the cluster, and quotes secrets of an entry that it can't read.
"""

import os
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpushare.api.suggestion import suggest
from gpushare.kube.errors import CredentialsError

DEFAULT_PATH = Path("~/.kube/config")
VARIABLE = "KUBECONFIG"
_KINDS = ("context", "cluster", "user")
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """A context with what it names; their paths start from the working directory."""

    origin: str
    """Its files and its name, for messages."""
    name: str
    namespace: str
    cluster: Fields
    user: Fields


def find_context(
    kubeconfig: Path | None, asked: str | None, environ: Mapping[str, str] = os.environ
) -> Context | None:
    """Find the context `asked`, or else the current one: of this file, else of those of KUBECONFIG,
    else of the default one; None where that does not exist.

    Raises `CredentialsError`: the message says what is missing.
    """
    if kubeconfig is not None:
        named, origin = [kubeconfig], "--kubeconfig"
    elif value := environ.get(VARIABLE):
        named, origin = [Path(part) for part in value.split(os.pathsep) if part], VARIABLE
    else:
        named, origin = [DEFAULT_PATH], ""
    if paths := [path for path in map(Path.expanduser, named) if path.exists()]:
        return _find(os.pathsep.join(map(str, paths)), [_read(path) for path in paths], asked)
    if not origin:
        return None
    shown = ", ".join(map(str, named)) or "nothing"
    raise CredentialsError(f"{origin} names {shown}, which does not exist")


def _find(shown: str, files: list[Fields], asked: str | None) -> Context:
    known = {kind: ChainMap(*(file[kind] for file in files)) for kind in _KINDS}
    name = asked or next((str(said) for file in files if (said := file["current-context"])), "")
    if name not in known["context"]:
        fault = (
            f"no context {name}{suggest(name, known['context'])}" if name else "no current-context"
        )
        names = ", ".join(sorted(known["context"])) or "none"
        raise CredentialsError(f"{shown} has {fault}. Set --context to one that it has: {names}")
    context = {field: str(value) for field, value in known["context"][name].items()}
    origin = f"{shown}: context {name}"
    for kind in ("cluster", "user"):
        if (named := context.get(kind)) not in known[kind]:
            raise CredentialsError(f"{origin} names the {kind} {named!r}, which is not defined")
    cluster, user = (known[kind][context[kind]] for kind in ("cluster", "user"))
    return Context(origin, name, context.get("namespace", "default"), cluster, user)


def _read(path: Path) -> Fields:
    """Read each kind's entries by name, and the current-context."""
    try:
        with path.open() as file:
            content = yaml.safe_load(file) or {}
        entries = {
            kind: {
                entry["name"]: _resolve(entry.get(kind) or {}, path.parent)
                for entry in content.get(f"{kind}s") or ()
            }
            for kind in _KINDS
        }
        return {"current-context": content.get("current-context"), **entries}
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"cannot read {path}: {error}") from error
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        # Not in its own words: they may quote a secret.
        raise CredentialsError(
            f"{path} is not a kubeconfig, or has an entry without name"
        ) from error


def _resolve(entry: Fields, folder: Path) -> Fields:
    """Resolve paths from the file's folder; a command without a slash stays one in PATH."""
    said = {field: value for field, value in entry.items() if value}
    said |= {field: str(folder / said[field]) for field in _PATHS if field in said}
    if os.sep in (command := said.get("exec", {}).get("command") or ""):
        said["exec"] = {**said["exec"], "command": str(folder / command)}
    return said
