"""Documents of YAML or JSON, read as kubectl does, and where in the text each value stands."""

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import Node

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


@dataclass(frozen=True, slots=True)
class Document:
    """One of a text's documents."""

    raw: Any
    node: Node
    """Where in the text each value stands."""


def parse_documents(text: str) -> tuple[Document, ...]:
    """The documents of YAML or JSON; empty ones are left out. Raises `yaml.YAMLError`."""
    # JSON may be indented by tabs, which YAML has not; in its strings there are none.
    loader = _Loader(text.replace("\t", " ") if is_json(text) else text)
    documents = []
    try:
        while loader.check_node():
            node = loader.get_node()
            raw = None if node is None else loader.construct_document(node)
            if node is not None and raw is not None:
                documents.append(Document(raw, node))
    finally:
        loader.dispose()
    return tuple(documents)


def is_json(text: str) -> bool:
    """Whether the text is JSON, which YAML may look like."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
