"""Which cluster a kubeconfig means: its files, and the context that is asked for.

"Organizing Cluster Access Using kubeconfig Files" in the Kubernetes documentation: of several files
the first that says something is believed.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from gpushare.kube.errors import CredentialsError

DEFAULT_PATH = Path("~/.kube/config")
VARIABLE = "KUBECONFIG"
_SERVER = re.compile(r"https?://[^/]+")
_PARTS = ("contexts", "clusters", "users")


@dataclass(frozen=True, slots=True)
class Context:
    """A context whose cluster and user are there."""

    name: str
    namespace: str
    """`default` where it names none."""


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
        close = get_close_matches(name, sorted(contexts), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise CredentialsError(f"{shown} has no context {name}{hint}")
    context = contexts[name].get("context")
    if not isinstance(context, dict):
        raise CredentialsError(f"{shown}: context {name} is empty")
    for part, known in (("cluster", clusters), ("user", users)):
        if context.get(part) not in known:
            raise CredentialsError(
                f"{shown}: context {name} names the {part} {context.get(part)!r}, which is not "
                f"in its {part}s"
            )
    cluster = clusters[context["cluster"]].get("cluster")
    server = cluster.get("server") if isinstance(cluster, dict) else None
    if not isinstance(server, str) or not _SERVER.match(server):
        raise CredentialsError(
            f"{shown}: the server of cluster {context['cluster']} is {server!r}, and no URL"
        )
    return Context(name, context.get("namespace") or "default")


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
) -> dict[str, dict[str, Any]]:
    """The entries of a list by name."""
    merged: dict[str, dict[str, Any]] = {}
    for file, path in zip(files, paths, strict=True):
        entries = file.get(part) or []
        if not isinstance(entries, list) or not all(map(_has_name, entries)):
            raise CredentialsError(f"{path} is no kubeconfig: its {part} are no list with names")
        for entry in entries:
            merged.setdefault(entry["name"], entry)
    return merged


def _has_name(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("name"), str)
