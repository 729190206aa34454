"""Formats answers as JSON and YAML in which every character that is no text is escaped."""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

import orjson

from gpushare.api import documents
from gpushare.cli.output.control_characters import CONTROLS, escape_controls

Json = dict[str, Any]
_FORMULA = tuple("=+-@")
_JSON = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS


def format_json(document: Any) -> str:
    """Format a document of lists, mappings, strings and numbers of any size as JSON."""
    try:
        text = orjson.dumps(document, option=_JSON).decode()
    except TypeError:
        # Of a number with more than 64 bits.
        text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    return CONTROLS.sub(_escape_in_json, text) + "\n"


def _escape_in_json(found: re.Match[str]) -> str:
    """Escape a control character; all but line ends are inside JSON strings."""
    return "\n" if found[0] == "\n" else f"\\u{ord(found[0]):04x}"


def format_yaml(document: Any) -> str:
    """Format a document as YAML."""
    return escape_controls(documents.format_yaml(document), but="\n")


def format_csv(keys: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Format the values of these keys as CSV, under a line of the keys; empty for None. A cell that
    a spreadsheet would take for a formula begins with an apostrophe."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([_format_cell(row[key]) for key in keys] for row in rows)
    return text.getvalue()


def _format_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return f"'{escape_controls(value)}" if value[:1] in _FORMULA else escape_controls(value)


def render_manifests(
    head: Iterable[str], manifests: Sequence[Json], comments: Mapping[str, Sequence[str]]
) -> str:
    """Render objects as YAML to apply, under comments: those of the `head`, and by name those of
    each object."""
    parts = [_comment(head)]
    for manifest in manifests:
        said = _comment(comments.get(manifest["metadata"]["name"], ()))
        parts.append(f"---\n{said}{documents.format_yaml(manifest)}")
    return "".join(parts)


def _comment(lines: Iterable[str]) -> str:
    """Format lines as comments; a line end in a name must not end the comment."""
    return "".join(f"# {escape_controls(line)}\n" for line in lines)
