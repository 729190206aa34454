"""GPUSharePools that nobody has created yet, as YAML to apply."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpushare.api.documents import format_yaml
from gpushare.cli.output.control_characters import escape_controls

Json = dict[str, Any]


def render_manifests(
    head: Iterable[str], manifests: Sequence[Json], comments: Mapping[str, Sequence[str]]
) -> str:
    """YAML documents under comments: those of the `head`, and by name those of each pool."""
    parts = [_comment(head)]
    for manifest in manifests:
        said = _comment(comments.get(manifest["metadata"]["name"], ()))
        parts.append(f"---\n{said}{format_yaml(manifest)}")
    return "".join(parts)


def _comment(lines: Iterable[str]) -> str:
    """A name with a line's end in it must not end the comment."""
    return "".join(f"# {escape_controls(line)}\n" for line in lines)
