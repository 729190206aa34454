"""Rules and dashboards by Prometheus' own tools, and as the chart gives them to a cluster."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.startup import CHART
from tests.integration.chart.chart_values import Values, render_objects
from tests.kit.bench import Bench
from tests.kit.dashboards import FILES, list_queries, read

Json = dict[str, Any]


RULES = CHART / "files/rules.yaml"
CASES = Path(__file__).with_name("rules-test.yaml")


@pytest.fixture(scope="module")
def promtool(prometheus_programs: Path) -> Path:
    return prometheus_programs / "promtool"


def run(promtool: Path, *arguments: str) -> str:
    """What it says; fails with that where it finds a flaw."""
    done = subprocess.run(
        [promtool, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_rules_are_valid_and_none_is_there_twice(promtool: Path) -> None:
    said = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert "SUCCESS" in said


def test_alerts_fire_where_they_must_and_only_there(promtool: Path) -> None:
    assert "SUCCESS" in run(promtool, "test", "rules", str(CASES))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_prometheus_understands_every_query_of_a_dashboard(
    promtool: Path, file: Path, tmp_path: Path
) -> None:
    queries = [query for _, query in list_queries(read(file))]
    rules = [{"record": f"q{index}", "expr": query} for index, query in enumerate(queries)]
    written = tmp_path / "queries.yaml"
    written.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(queries)} rules found" in run(promtool, "check", "rules", str(written))


# What the chart makes of them.


def render(bench: Bench, kind: str, values: Values) -> list[Json]:
    objects = render_objects(bench.cluster, values)
    return [item for item in objects if item["kind"] == kind]


def test_nothing_is_made_of_them_unless_it_is_switched_on(installed: Bench) -> None:
    for kind in ("PrometheusRule", "ConfigMap"):
        assert render(installed, kind, {}) == []


def test_the_rules_are_given_as_they_are_and_lead_to_ones_own_runbooks(installed: Bench) -> None:
    own = "https://runbooks.example.com/gpushare"
    values = {
        "prometheusRule.enabled": True,
        "prometheusRule.labels": {"release": "prometheus"},
        "prometheusRule.runbooks": own,
    }
    (rule,) = render(installed, "PrometheusRule", values)
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    expected = yaml.safe_load(RULES.read_text().replace("docs/runbooks.md", own))
    assert rule["spec"] == expected


def test_grafana_is_given_each_dashboard_as_it_is(installed: Bench) -> None:
    values = {
        "dashboards.enabled": True,
        "dashboards.namespace": "grafana",
        "dashboards.annotations": {"grafana_folder": "GPU"},
    }
    maps = render(installed, "ConfigMap", values)
    assert [item["metadata"]["name"] for item in maps] == [
        f"gpushare-dashboard-{file.stem}" for file in FILES
    ]
    for item, file in zip(maps, FILES, strict=True):
        assert item["metadata"]["namespace"] == "grafana"
        assert item["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert item["metadata"]["annotations"] == {"grafana_folder": "GPU"}
        assert item["data"] == {file.name: file.read_text().rstrip("\n")}


def test_an_applications_namespace_is_not_replaced_by_the_operators(installed: Bench) -> None:
    (monitor,) = render(installed, "ServiceMonitor", {"serviceMonitor.enabled": True})
    assert monitor["spec"]["endpoints"][0]["honorLabels"] is True
