"""The chart's files, without rendering them."""

import calendar
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare import __version__, names
from gpushare.api.pool import Edition, Schedule
from gpushare.editions.registry import MODES
from gpushare.settings import Settings
from gpushare.workload_kinds import list_rows
from tools.chart_readme import read_values, render_readme
from tools.tested_versions import read_tested_versions

ROOT = Path(__file__).parents[3]
CHART = ROOT / "chart"
VALUES_TEXT = (CHART / "values.yaml").read_text()
VALUES = yaml.safe_load(VALUES_TEXT)
HELPERS = (CHART / "templates/_helpers.tpl").read_text()
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


@pytest.mark.parametrize("kind", [names.PLURAL, names.TABLE_PLURAL])
def test_the_chart_has_the_crds_of_the_program(kind: str) -> None:
    copy = CHART / f"files/{kind}.yaml"
    assert copy.read_bytes() == (ROOT / "crds" / copy.name).read_bytes(), "run `make crds`"


def test_the_chart_has_the_workload_kinds_of_the_program() -> None:
    rows = yaml.safe_load((CHART / "files/workload-kinds.yaml").read_text())
    assert rows == list_rows(), "run `make workload-kinds`"


def test_no_file_of_the_chart_and_no_crd_is_a_link() -> None:
    # Flux leaves links out of what it takes from a repository, and says nothing.
    files = [*CHART.rglob("*"), *(ROOT / "crds").iterdir()]
    assert [file for file in files if file.is_symlink()] == []
    assert (ROOT / "templates/teardown.sh").samefile(CHART / "files/teardown.sh")


def test_the_kubelet_hands_the_script_on_as_it_is() -> None:
    # In a container's command $$ is an escape that becomes $, and $(NAME) a variable.
    script = (CHART / "files/teardown.sh").read_text()
    assert "$$" not in script
    assert re.findall(r"\$\([A-Z_]+\)", script) == []


def test_the_chart_is_of_the_programs_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_it_was_tested_on_the_oldest_kubernetes_that_it_accepts_and_on_the_newest() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    oldest, *_, newest = read_tested_versions()
    assert chart["kubeVersion"] == f">={oldest.minor}.0-0"
    assert f"k8s.io/kubernetes v{newest.version} " in (ROOT / "devcluster/go.mod").read_text()


def test_the_chart_and_the_pages_name_the_versions_of_the_list_and_no_other() -> None:
    tested = read_tested_versions()
    *others, newest = [each.minor for each in tested]
    last = max(each.month for each in tested)
    year, month = (int(part) for part in last.split("-"))
    listed = ", ".join(each.minor for each in tested)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["annotations"]["gpushare.io/tested-kubernetes"] == listed
    assert chart["annotations"]["gpushare.io/tested-in"] == last
    in_words = f"{', '.join(others)} and {newest}, last in {calendar.month_name[month]} {year}"
    in_chinese = f"{'、'.join(others)} 和 {newest}，最近一次在 {year} 年 {month} 月"
    for page, words in {
        "README.md": in_words,
        "docs/install.md": in_words,
        "README.zh-CN.md": in_chinese,
        "docs/install.zh-CN.md": in_chinese,
    }.items():
        assert words in (ROOT / page).read_text().replace("\n", " "), f"{page}: {words}"


def test_each_test_that_another_version_is_tried_with_exists() -> None:
    text = (ROOT / "Makefile").read_text().partition("\nVERSIONED = ")[2]
    names = text.partition("\n.PHONY")[0].replace("\\\n", " ").split()
    assert len(names) > 10
    found = {path.stem for path in (ROOT / "tests/integration").glob("*/test_*.py")}
    assert [name for name in names if f"test_{name}" not in found] == []


def test_the_versions_are_sorted_and_make_lists_them_where_none_is_said() -> None:
    tested = read_tested_versions()
    assert [*tested] == sorted(tested, key=lambda each: [*map(int, each.version.split("."))])
    program = "tools.tested_versions"
    assert f"$(BIN)/python -m {program}; exit 1" in (ROOT / "Makefile").read_text()
    told = subprocess.run(
        [sys.executable, "-m", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [line.split()[:2] for line in told.stdout.splitlines()] == [
        [each.version, each.month] for each in tested
    ]


@pytest.mark.parametrize("path", OBJECTS)
def test_the_schema_knows_exactly_the_values_that_there_are(path: str) -> None:
    properties = [key for key in OBJECTS[path]["properties"] if key != "global"]
    assert set(properties) == values_at(path).keys()
    assert OBJECTS[path]["additionalProperties"] is False
    # Else Helm takes null for "no such value", and a switch that nobody decided about is off.
    assert OBJECTS[path]["required"] == properties


def test_the_chart_has_a_readme_of_its_values_as_they_are() -> None:
    readme = (CHART / "README.md").read_text()
    assert readme == render_readme(), "chart/README.md is stale; run `make chart-docs`"


def list_leaves(values: Any, path: str = "") -> Iterator[str]:
    if isinstance(values, dict) and values:
        for key, child in values.items():
            yield from list_leaves(child, f"{path}.{key}")
    else:
        yield path.removeprefix(".")


def test_the_readme_leaves_no_value_out() -> None:
    told = [".".join(value.path) for value in read_values(VALUES_TEXT)]
    assert [
        leaf
        for leaf in list_leaves(VALUES)
        if not any(f"{leaf}.".startswith(f"{t}.") for t in told)
    ] == []


@pytest.mark.parametrize("name", sorted(set(re.findall(r"name: GPUSHARE_(\w+)", HELPERS))))
def test_the_chart_sets_what_the_program_reads(name: str) -> None:
    assert name.lower() in Settings.model_fields


@pytest.mark.parametrize(
    ("value", "setting"),
    [
        ("eviction.enabled", "allow_eviction"),
        ("memoryUnit", "memory_unit"),
        ("nodeLabelKeys", "node_label_keys"),
        ("metrics.perApplication", "per_application_metrics"),
        ("metrics.perNode", "per_node_metrics"),
        ("teardown.jobs.namespace", "teardown_namespace"),
        ("webhook.replicas", "webhook_replicas"),
        ("webhook.onNoPool", "on_no_pool"),
        ("webhook.schedulers", "schedulers"),
        ("webhook.staleSeconds", "stale_seconds"),
        ("webhook.drainSeconds", "drain_seconds"),
        ("webhook.maxCallsInFlight", "max_calls_in_flight"),
        ("webhook.certificate.mode", "certificate_mode"),
        ("webhook.certificate.lifetimeSeconds", "certificate_lifetime_seconds"),
        ("webhook.certificate.authorityLifetimeSeconds", "authority_lifetime_seconds"),
    ],
)
def test_an_installation_starts_with_the_programs_own_defaults(value: str, setting: str) -> None:
    default = Settings.model_fields[setting].default
    assert values_at(value) == (list(default) if isinstance(default, tuple) else default)


CONFIGURATION = str(Settings.model_fields["webhook_configuration"].default)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("_admission.tpl", {names.ANNOTATION_POOL, names.LABEL_INJECT, names.INJECT_DISABLED}),
        ("_admission.tpl", names.SHARED_RESOURCES | names.GPU_ENVIRONMENT),
        ("webhook.yaml", {names.LABEL_FAILURE_POLICY}),
        ("isolation-policy.yaml", {names.ANNOTATION_ISOLATION, names.ISOLATION_REQUIRED}),
        ("account-policy.yaml", {names.ANNOTATION_RETRY, names.FINALIZER, names.GROUP}),
        ("account-policy.yaml", {names.PLURAL, names.VERSION}),
        ("account-policy-webhook.yaml", {CONFIGURATION}),
    ],
)
def test_what_is_matched_is_spelt_as_the_program_spells_it(template: str, words: set[str]) -> None:
    text = (CHART / "templates" / template).read_text()
    assert [word for word in sorted(words) if not re.search(rf"\b{re.escape(word)}\b", text)] == []


@pytest.mark.parametrize(
    ("edition", "schedule"), [key for key, mode in MODES.items() if mode.isolated]
)
def test_the_policy_knows_the_labels_of_every_mode_that_isolates(
    edition: Edition, schedule: Schedule
) -> None:
    text = (CHART / "templates/isolation-policy.yaml").read_text()
    for key, value in MODES[edition, schedule].labels.items():
        (known,) = re.findall(rf"selector\[\?'{key}'\]\.orValue\(''\) (?:in|==) (.+?)\n", text)
        assert f"'{value}'" in known


@pytest.mark.parametrize(
    ("variable", "keys"),
    [
        ("otherLabels", names.NODE_LABELS),
        ("otherAnnotations", names.NODE_ANNOTATIONS),
    ],
)
def test_the_account_is_held_to_exactly_what_the_program_writes(
    variable: str, keys: frozenset[str]
) -> None:
    text = (CHART / "templates/account-policy.yaml").read_text()
    _, _, expression = text.partition(f"- name: {variable}\n")
    (listed,) = re.findall(r" in \[(.+?)\]", expression.split("- name:")[0], re.DOTALL)
    assert set(re.findall(r"'(.+?)'", listed)) == keys


def test_the_account_deletes_pods_of_the_plugins_and_of_no_component_beside_them() -> None:
    text = (CHART / "templates/account-policy.yaml").read_text()
    (picked,) = re.findall(r"pick \.Values\.pluginDaemonSets (.+?) \}\}", text)
    assert set(re.findall(r'"(.+?)"', picked)) == {m.plugin for m in MODES.values() if m.plugin}


def test_the_chart_gives_each_daemonset_of_a_mode_the_name_that_it_has_in_acks_charts() -> None:
    assert VALUES["pluginDaemonSets"] == {name: name for name in names.STANDARD_DAEMONSETS}
