"""The CRD is what the models say, and is a schema that Kubernetes takes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.api.crd import build_crd

PROJECT = Path(__file__).parents[3]
SCHEMA = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}", part
        yield from _fields(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key], f"{path}[]")


def test_the_crd_on_disk_is_the_generated_one() -> None:
    on_disk = yaml.safe_load((PROJECT / "crds/gpusharepools.yaml").read_text())
    assert on_disk == build_crd(), "crds/gpusharepools.yaml is stale; run `make crds`"


@pytest.mark.parametrize(
    "field", [path for path, _ in _fields(SCHEMA) if path not in (".metadata",)]
)
def test_every_field_has_a_description(field: str) -> None:
    assert dict(_fields(SCHEMA))[field].get("description")


@pytest.mark.parametrize("field", [path for path, part in _fields(SCHEMA["properties"]["spec"])])
def test_every_list_map_and_text_of_the_spec_is_bounded(field: str) -> None:
    part = dict(_fields(SCHEMA["properties"]["spec"]))[field]
    bound = {"array": "maxItems", "string": "maxLength"}.get(part.get("type", ""))
    if "additionalProperties" in part:
        bound = "maxProperties"
    assert bound is None or bound in part or "enum" in part


@pytest.mark.parametrize("field", [path for path, _ in _fields(SCHEMA) if "[]" in path])
def test_nothing_is_written_into_an_item_of_a_list_that_its_owner_left_out(field: str) -> None:
    assert "default" not in dict(_fields(SCHEMA))[field]


def test_no_schema_refers_to_another_place() -> None:
    text = yaml.safe_dump(SCHEMA)
    assert "$ref" not in text
    assert "anyOf" not in text
