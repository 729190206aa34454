"""Answers as data: JSON and YAML in which every character that is no text is escaped."""

import json
from typing import Any

import orjson

from gpushare.api import documents
from gpushare.cli.output.control_characters import CONTROLS, escape_controls

_JSON = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
_SHAPES = "\n"
"""The controls that are the formats' own."""


def format_json(document: Any) -> str:
    """A document of lists, mappings, strings and numbers, however large these are."""
    try:
        text = orjson.dumps(document, option=_JSON).decode()
    except TypeError:
        # Of a number with more than 64 bits.
        text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    return _escape_json(text) + "\n"


def _escape_json(text: str) -> str:
    """Controls are in its strings only."""
    return CONTROLS.sub(lambda found: found[0] if found[0] == "\n" else _quote(found[0]), text)


def _quote(character: str) -> str:
    return f"\\u{ord(character):04x}"


def format_yaml(document: Any) -> str:
    """The same as YAML."""
    return escape_controls(documents.format_yaml(document), but=_SHAPES)
