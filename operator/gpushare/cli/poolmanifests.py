"""GPUSharePools that nobody has created yet, as YAML to apply."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from gpushare.cli.output import escape_controls

Json = dict[str, Any]

_WIDTH = 100


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
