"""Reads and writes YAML and JSON as kubectl does, with each value's place in the text."""

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

_INT = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)


class _Loader(yaml.SafeLoader):
    """Reads values as kubectl does: without times, and without numbers in base 60."""


_TAG = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.removeprefix(_TAG) not in ("timestamp", "int", "float")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+0123456789."))


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads the same values, by the C loader where it exists."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


_MERGE = f"{_TAG}merge"
_ALIASED_NODES = 100_000
"""Limit of values with expanded aliases; a text without them has fewer values than characters."""
_LOOKALIKE = re.compile(r"[-+.0-9]|[yYnN]$")
"""Text that go-yaml may read as a number or a time, by its first character, or as a boolean of YAML
1.1; PyYAML quotes the other words itself."""


@dataclass(frozen=True, slots=True)
class Document:
    """One of a text's documents."""

    raw: Any
    node: Node
    """YAML nodes, with the place of each value in the text."""


def parse_documents(text: str) -> tuple[Document, ...]:
    """Parse the documents of YAML or JSON; empty ones are left out.

    Raises `yaml.YAMLError`, also for duplicate keys and for aliases that expand to too many values,
    and `RecursionError` for values that are nested too deep.
    """
    # JSON may be indented by tabs, which YAML does not allow; its strings have none.
    loader = _Loader(text.replace("\t", " ") if is_json(text) else text)
    documents = []
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                _count_nodes(node, max(_ALIASED_NODES, len(text)), {})
            raw = None if node is None else loader.construct_document(node)
            if node is not None and raw is not None:
                documents.append(Document(raw, node))
    finally:
        loader.dispose()
    return tuple(documents)


def parse_values(text: str) -> list[Any]:
    """Parse the values of the documents of YAML or JSON; empty ones are left out.

    Raises as `parse_documents` does. JSON is read a hundred times faster than with its places.
    """
    try:
        value = json.loads(text, object_pairs_hook=_build_mapping, parse_constant=int)
    except ValueError:
        # Where it is wrong is said with the place.
        return [each.raw for each in parse_documents(text)]
    return [] if value is None else [value]


def _build_mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of JSON. Raises ValueError for duplicate keys."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError(pairs)
    return mapping


def parse_settings(text: str) -> Any:
    """Parse the first document of YAML or JSON, without the places of its values; None if empty.

    Raises `yaml.YAMLError`, ValueError, and `RecursionError` for values that are nested too deep.
    """
    try:
        return json.loads(text)
    except ValueError:
        return yaml.load(text, Loader=_FastLoader)


def _count_nodes(node: Node, most: int, counted: dict[int, int | None]) -> int:
    """Count the values in a node; aliased values count each time."""
    if not isinstance(node, CollectionNode):
        return 1
    if id(node) in counted:
        count = counted[id(node)]
        if count is None:
            raise _fault("a value contains itself", node)
        return count
    counted[id(node)] = None
    parts = node.value
    if isinstance(node, MappingNode):
        _check_keys(node)
        parts = [part for entry in node.value for part in entry]
    count = 1
    for part in parts:
        count += _count_nodes(part, most, counted)
        if count > most:
            raise _fault("its aliases expand to too many values", node)
    counted[id(node)] = count
    return count


def _check_keys(node: MappingNode) -> None:
    keys: dict[tuple[str, str], Node] = {}
    for key, _ in node.value:
        if isinstance(key, ScalarNode) and key.tag != _MERGE:
            first = keys.setdefault((key.tag, key.value), key)
            if first is not key:
                line = first.start_mark.line + 1
                raise _fault(f"duplicate key {key.value!r}, already set in line {line}", key)


def _fault(what: str, node: Node) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes YAML without anchors, by the C dumper where it exists."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> ScalarNode:
    style = None
    if not text.replace("\n", "").isprintable():
        style = '"'
    elif "\n" in text:
        style = "|"
    elif _LOOKALIKE.match(text):
        style = "'"
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)  # type: ignore[no-any-return]


_Dumper.add_representer(str, _represent_text)


def format_yaml(raw: Any) -> str:
    """Format lists, mappings, strings and numbers as YAML that kubectl reads back unchanged.

    Unprintable characters, except line breaks, are escaped in double quotes.
    """
    return yaml.dump(raw, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def is_json(text: str) -> bool:
    """Tell whether the text is valid JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
