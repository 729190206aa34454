"""Which cluster a kubeconfig means: its files, and the context that is asked for.

"Organizing Cluster Access Using kubeconfig Files" in the Kubernetes documentation: of several files
the first that says something is believed.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpushare.api.suggestion import suggest
from gpushare.kube.auth.kubeconfig_entries import Entry, parse_names
from gpushare.kube.errors import CredentialsError

DEFAULT_PATH = Path("~/.kube/config")
VARIABLE = "KUBECONFIG"
_PARTS = ("contexts", "clusters", "users")


@dataclass(frozen=True, slots=True)
class Context:
    """A context, whose cluster and user are there."""

    name: str
    namespace: str
    """`default` where it names none."""
    cluster: Entry
    user: Entry


def find_kubeconfigs(asked: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that are there: the one asked for, else those of KUBECONFIG, else the default one.

    Raises `CredentialsError` where the one asked for, or all of KUBECONFIG, are missing.
    """
    if asked is not None:
        named, origin = [asked], "--kubeconfig"
    elif value := environ.get(VARIABLE):
        named, origin = [Path(part) for part in value.split(os.pathsep) if part], VARIABLE
    else:
        named, origin = [DEFAULT_PATH], ""
    found = tuple(path for path in map(Path.expanduser, named) if path.exists())
    if origin and not found:
        shown = ", ".join(map(str, named)) or "nothing"
        raise CredentialsError(f"{origin} names {shown}, which does not exist")
    return found


def find_context(paths: Sequence[Path], asked: str | None) -> Context:
    """The context `asked`, or else the current one.

    Raises `CredentialsError`: the message says what of it is missing.
    """
    shown = os.pathsep.join(map(str, paths))
    files = [_read(path) for path in paths]
    contexts, clusters, users = (_merge(files, paths, part) for part in _PARTS)
    name = asked or next((each["current-context"] for each in files if _has_current(each)), "")
    if not name:
        raise CredentialsError(
            f"{shown} has no current-context; name one with --context "
            f"({', '.join(sorted(contexts)) or 'it has none'})"
        )
    if name not in contexts:
        raise CredentialsError(f"{shown} has no context {name}{suggest(name, contexts)}")
    names = parse_names(contexts[name])
    for part, named, known in (("cluster", names.cluster, clusters), ("user", names.user, users)):
        if named not in known:
            raise CredentialsError(
                f"{shown}: context {name} names the {part} {named!r}, which is not in its {part}s"
            )
    namespace = names.namespace or "default"
    return Context(name, namespace, clusters[names.cluster], users[names.user])


def _has_current(file: Mapping[str, Any]) -> bool:
    return isinstance(file.get("current-context"), str) and bool(file["current-context"])


def _read(path: Path) -> dict[str, Any]:
    try:
        parsed = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"{path} can't be read: {error}") from error
    except yaml.YAMLError as error:
        raise CredentialsError(f"{path} is no kubeconfig: {error}") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise CredentialsError(f"{path} is no kubeconfig: it has no contexts")
    return parsed


def _merge(
    files: Sequence[Mapping[str, Any]], paths: Sequence[Path], part: str
) -> dict[str, Entry]:
    """The entries of a list by name."""
    merged: dict[str, Entry] = {}
    kind = part.removesuffix("s")
    for file, path in zip(files, paths, strict=True):
        entries = file.get(part) or []
        if not isinstance(entries, list) or not all(map(_has_name, entries)):
            raise CredentialsError(f"{path} is no kubeconfig: its {part} are no list with names")
        for raw in entries:
            merged.setdefault(raw["name"], Entry(path, kind, raw["name"], raw.get(kind) or {}))
    return merged


def _has_name(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("name"), str)
