"""The CRD is what the models say, and is a schema that Kubernetes takes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare import names
from gpushare.api.crd import build_crd, build_table_crd

PROJECT = Path(__file__).parents[3]
CRDS = {names.PLURAL: build_crd(), names.TABLE_PLURAL: build_table_crd()}
SCHEMAS = {
    kind: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for kind, crd in CRDS.items()
}


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}", part
        yield from _fields(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key], f"{path}[]")


FIELDS = {(kind, path): part for kind, schema in SCHEMAS.items() for path, part in _fields(schema)}
OF_SPECS = {each: part for each, part in FIELDS.items() if each[1].startswith(".spec.")}


@pytest.mark.parametrize("kind", CRDS)
def test_the_crd_on_disk_is_the_generated_one(kind: str) -> None:
    on_disk = yaml.safe_load((PROJECT / f"crds/{kind}.yaml").read_text())
    assert on_disk == CRDS[kind], f"crds/{kind}.yaml is stale; run `make crds`"


@pytest.mark.parametrize("field", [each for each in FIELDS if each[1] != ".metadata"])
def test_every_field_has_a_description(field: tuple[str, str]) -> None:
    assert FIELDS[field].get("description")


@pytest.mark.parametrize("field", OF_SPECS)
def test_every_list_map_and_text_of_the_spec_is_bounded(field: tuple[str, str]) -> None:
    part = OF_SPECS[field]
    bound = {"array": "maxItems", "string": "maxLength"}.get(part.get("type", ""))
    if "additionalProperties" in part:
        bound = "maxProperties"
    assert bound is None or bound in part or "enum" in part


@pytest.mark.parametrize("field", [each for each in FIELDS if "[]" in each[1]])
def test_nothing_is_written_into_an_item_of_a_list_that_its_owner_left_out(
    field: tuple[str, str],
) -> None:
    assert "default" not in FIELDS[field]


@pytest.mark.parametrize("kind", CRDS)
def test_no_schema_refers_to_another_place(kind: str) -> None:
    text = yaml.safe_dump(SCHEMAS[kind])
    assert "$ref" not in text
    assert "anyOf" not in text
