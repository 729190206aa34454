"""Changes the text of manifests where their content changes, and nowhere else.

A YAML library that writes what it read keeps comments, but has its own mind about indentation,
quotes and line ends, all of which would be in a person's diff. So it is only asked where in the
text each value stands; what is written there is read again before it is believed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from gpushare.api.documents import Document, format_yaml, parse_documents

_PLAIN = re.compile(r"[A-Za-z][\w./-]*", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


@dataclass(frozen=True, slots=True, order=True)
class _Edit:
    start: int
    end: int
    text: str


class _UnplaceableError(Exception):
    """The content can't be changed in place, as where an anchor is used twice."""


class _NoLinesError(Exception):
    """An entry that comes or goes has no lines of its own: its collection is written anew."""


def rewrite_text(
    text: str, documents: Sequence[Document], wanted: Sequence[Any]
) -> tuple[str, bool]:
    """Rewrite `text` so that its `documents` are the `wanted` ones; also returns whether one of
    them had to be reformatted, without its comments."""
    reformatted = False
    edits: list[_Edit] = []
    for document, raw in zip(documents, wanted, strict=True):
        own = _place(text, document, raw) if document.raw != raw else []
        if own is None:
            reformatted = True
            own = [_replace_document(text, document, raw)]
        edits += own
    return _apply(text, edits, 0, len(text)), reformatted


def _place(text: str, document: Document, wanted: Any) -> list[_Edit] | None:
    """Find edits that turn the document into the wanted one; None where there are none."""
    start, end = document.node.start_mark.index, document.node.end_mark.index
    line = text.rfind("\n", 0, start) + 1
    start = start if text[line:start].strip() else line
    try:
        edits = sorted(set(_edit(text, document.node, document.raw, wanted)))
        found = parse_documents(_apply(text, edits, start, end))
    except (_UnplaceableError, yaml.YAMLError):
        return None
    return edits if [each.raw for each in found] == [wanted] else None


def _apply(text: str, edits: Sequence[_Edit], start: int, end: int) -> str:
    """Apply the edits, which are in order, to the part of `text` from `start` to `end`."""
    parts, place = [], start
    for edit in edits:
        if not place <= edit.start <= edit.end <= end:
            raise _UnplaceableError
        parts += [text[place : edit.start], edit.text]
        place = edit.end
    return "".join([*parts, text[place:end]])


def _replace_document(text: str, document: Document, wanted: Any) -> _Edit:
    start, end = document.node.start_mark.index, document.node.end_mark.index
    # Lines of their own would not be in line with its first, if that begins within a line.
    written = _dump(wanted) if document.node.start_mark.column else format_yaml(wanted)
    return _Edit(start, start + len(text[start:end].rstrip()), written.rstrip())


def _edit(text: str, node: Node, old: Any, new: Any) -> list[_Edit]:
    if old == new and type(old) is type(new):
        return []
    try:
        if isinstance(node, MappingNode) and isinstance(old, dict) and isinstance(new, dict):
            return list(_edit_mapping(text, node, old, new))
        if isinstance(node, SequenceNode) and isinstance(old, list) and isinstance(new, list):
            return list(_edit_sequence(text, node, old, new))
    except _NoLinesError:
        pass
    return [_replace(text, node, new)]


def _edit_sequence(
    text: str, node: SequenceNode, old: list[Any], new: list[Any]
) -> Iterator[_Edit]:
    """Add and remove items at the end: each in a line as the last has it, or with its lines."""
    if not new:
        raise _NoLinesError
    for part, before, after in zip(node.value, old, new, strict=False):
        yield from _edit(text, part, before, after)
    for part in node.value[len(new) :]:
        yield _remove(text, node, part, part, "-")
    if added := new[len(old) :]:
        if node.flow_style:
            raise _NoLinesError
        last: Node = node.value[-1]
        end = _find_end(text, last)
        end += len(re.split(r"[\r\n]", text[end:], maxsplit=1)[0])
        start = f"{_find_newline(text)}{' ' * node.start_mark.column}- "
        yield _Edit(end, end, "".join(f"{start}{_write(last, item)}" for item in added))


def _edit_mapping(
    text: str, node: MappingNode, old: dict[str, Any], new: dict[str, Any]
) -> Iterator[_Edit]:
    """Replace a removed key by an added one, so that a comment beside it stays."""
    if not new:
        raise _NoLinesError
    entries = {key.value: (key, value) for key, value in node.value}
    gone = [key for key in old if key not in new]
    come = [key for key in new if key not in old]
    renamed = dict(zip(gone, come, strict=False))
    yield from (_remove(text, node, *entries[key]) for key in gone[len(come) :])
    yield from (_insert(text, node, key, new[key]) for key in come[len(gone) :])
    for key, before in old.items():
        to = renamed.get(key, key)
        if to not in new:
            continue
        if key not in entries:
            raise _UnplaceableError
        if to != key:
            yield _replace(text, entries[key][0], to)
        yield from _edit(text, entries[key][1], before, new[to])


def _remove(text: str, node: CollectionNode, first: Node, last: Node, sign: str = "") -> _Edit:
    """Remove the lines of an entry, or of an item with its `sign`."""
    start = text.rfind("\n", 0, first.start_mark.index) + 1
    end = text.find("\n", _find_end(text, last)) + 1 or len(text)
    before, after = text[start : first.start_mark.index], text[_find_end(text, last) : end]
    alone = before.strip() == sign and (not after.strip() or after.lstrip().startswith("#"))
    if node.flow_style or not alone:
        raise _NoLinesError
    return _Edit(start, end, "")


def _insert(text: str, node: MappingNode, key: str, value: Any) -> _Edit:
    """Insert a key as the first entry."""
    start = node.start_mark.index
    if node.flow_style:
        comma = ", " if node.value else ""
        return _Edit(start + 1, start + 1, f"{json.dumps(key)}: {_dump(value)}{comma}")
    first: Node = node.value[0][0]
    at = first.start_mark.index
    indent = " " * first.start_mark.column
    return _Edit(at, at, f"{_write_plain(key)}: {_dump(value)}{_find_newline(text)}{indent}")


def _replace(text: str, node: Node, new: Any) -> _Edit:
    start, end = node.start_mark.index, _find_end(text, node)
    written = _write(node, new)
    # Nothing stands where a value is empty.
    return _Edit(start, end, f" {written}" if start == end else written)


def _write(like: Node, new: Any) -> str:
    """Write a value in the quotes of another."""
    style = like.style if isinstance(like, ScalarNode) else None
    if not isinstance(new, str):
        return _dump(new)
    if style == "'":
        return f"'{new}'"
    return _dump(new) if style else _write_plain(new)


def _find_end(text: str, node: Node) -> int:
    """Find where a node's own text ends: a collection in lines reaches to the next token."""
    end: int = node.end_mark.index
    if isinstance(node, ScalarNode):
        return len(text[:end].rstrip()) if node.style in ("|", ">") else end
    if not isinstance(node, CollectionNode) or node.flow_style or not node.value:
        return end
    last = node.value[-1]
    return _find_end(text, last[1] if isinstance(node, MappingNode) else last)


def _find_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _write_plain(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if is_plain else _dump(text)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
