"""GPUSharePools that nobody has created yet: as the planner sees them, and as YAML to apply."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import yaml

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.cli.output import escape_controls

Json = dict[str, Any]

_WIDTH = 100


def parse_new_pool(manifest: Json, now: datetime) -> Pool:
    """The pool as if it was created at `now`, and the controller had it.

    Raises pydantic's ValidationError where it is none.
    """
    meta = {
        "name": manifest["metadata"]["name"],
        "uid": "",
        "generation": 1,
        "creationTimestamp": now,
        "finalizers": [names.FINALIZER],
    }
    return Pool.parse({"metadata": meta, "spec": manifest["spec"]})


def render_manifests(
    head: Iterable[str], manifests: Sequence[Json], comments: Mapping[str, Sequence[str]]
) -> str:
    """YAML documents under comments: those of the `head`, and by name those of each pool."""
    parts = [_comment(head)]
    for manifest in manifests:
        said = _comment(comments.get(manifest["metadata"]["name"], ()))
        body = yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=_WIDTH)
        parts.append(f"---\n{said}{body}")
    return "".join(parts)


def _comment(lines: Iterable[str]) -> str:
    """A name with a line's end in it must not end the comment."""
    return "".join(f"# {escape_controls(line)}\n" for line in lines)
