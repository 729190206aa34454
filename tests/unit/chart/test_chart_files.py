"""The chart's files, without rendering them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare import __version__
from gpushare.settings import Settings

ROOT = Path(__file__).parents[3]
CHART = ROOT / "chart"
VALUES_TEXT = (CHART / "values.yaml").read_text()
VALUES = yaml.safe_load(VALUES_TEXT)
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def list_objects(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the schema that has properties, by its path."""
    if "properties" in schema:
        yield path, schema
    for key, child in schema.get("properties", {}).items():
        yield from list_objects(child, f"{path}.{key}".strip("."))


def values_at(path: str) -> Any:
    values = VALUES
    for key in filter(None, path.split(".")):
        values = values[key]
    return values


OBJECTS = dict(list_objects(SCHEMA))


def test_the_chart_installs_the_generated_crd() -> None:
    generated = (ROOT / "crds/gpusharepools.yaml").read_bytes()
    assert (CHART / "files/gpusharepools.yaml").read_bytes() == generated


def test_the_crd_has_the_one_place_where_the_chart_puts_its_annotation() -> None:
    text = (CHART / "files/gpusharepools.yaml").read_text()
    assert text.count("\nmetadata:\n  name:") == 1


def test_the_chart_is_of_the_programs_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@pytest.mark.parametrize("path", OBJECTS)
def test_the_schema_knows_exactly_the_values_that_there_are(path: str) -> None:
    properties = OBJECTS[path]["properties"].keys() - {"global"}
    assert properties == values_at(path).keys()
    assert OBJECTS[path]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("template", "setting"),
    [
        ("rbac-controller.yaml", "lease_name"),
        ("rbac-webhook.yaml", "certificate_secret"),
        ("rbac-webhook.yaml", "webhook_configuration"),
        ("webhook.yaml", "webhook_service"),
        ("webhook.yaml", "webhook_configuration"),
    ],
)
def test_the_chart_names_objects_as_the_program_looks_for_them(template: str, setting: str) -> None:
    name = Settings.model_fields[setting].default
    text = (CHART / "templates" / template).read_text()
    assert re.search(rf"(?:name: |resourceNames: \[){name}\b", text)


def test_no_right_is_given_by_wildcard() -> None:
    for template in CHART.glob("templates/rbac-*.yaml"):
        assert "*" not in template.read_text()


def test_the_chart_evicts_only_where_that_is_switched_on() -> None:
    role = (CHART / "templates/rbac-controller.yaml").read_text()
    before, switched = role.split("{{- if .Values.eviction.enabled }}")
    rule, after = switched.split("{{- end }}", 1)
    assert ["pods/eviction" in part for part in (before, rule, after)] == [False, True, False]
    assert VALUES["eviction"]["enabled"] is Settings.model_fields["allow_eviction"].default is False


def test_every_value_is_explained() -> None:
    lines = VALUES_TEXT.splitlines()
    unexplained = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r" *\w+: ?\S", line) and not before.lstrip().startswith("#")
        if not line.startswith("    ")
    ]
    assert unexplained == []
