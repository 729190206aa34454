"""Rules and dashboards by Prometheus' own tools, and as the chart gives them to a cluster."""

import subprocess
from pathlib import Path

import yaml

from devcluster.startup import CHART
from tests.integration.chart.chart_values import Values, render_objects
from tests.kit.bench import Bench, Json
from tests.kit.dashboards import FILES

RULES = CHART / "files/rules.yaml"
MOVES = CHART / "files/rules-moves.yaml"
CASES = Path(__file__).with_name("rules-test.yaml")


def run_promtool(folder: Path, *arguments: str | Path) -> None:
    """Fails with what it says where it finds a flaw."""
    command = [folder / "promtool", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_the_rules_are_valid_and_none_is_there_twice(prometheus_programs: Path) -> None:
    run_promtool(prometheus_programs, "check", "rules", "--lint=all", "--lint-fatal", RULES, MOVES)


def test_alerts_fire_where_they_must_and_only_there(prometheus_programs: Path) -> None:
    run_promtool(prometheus_programs, "test", "rules", CASES)


# What the chart makes of them.


def render(bench: Bench, kind: str, values: Values) -> list[Json]:
    return [item for item in render_objects(bench.cluster, values) if item["kind"] == kind]


def test_nothing_is_made_of_them_unless_it_is_switched_on(installed: Bench) -> None:
    for kind in ("PrometheusRule", "ConfigMap", "ServiceMonitor", "NetworkPolicy"):
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
    expected = yaml.safe_load(
        RULES.read_text().replace("runbook: docs/runbooks.md", f"runbook_url: {own}")
    )
    assert rule["spec"] == expected


def test_the_alert_of_recommended_moves_is_added_where_it_is_switched_on(
    installed: Bench,
) -> None:
    values = {"prometheusRule.enabled": True, "prometheusRule.recommendedMoves": True}
    (rule,) = render(installed, "PrometheusRule", values)
    expected = [yaml.safe_load(path.read_text())["groups"] for path in (RULES, MOVES)]
    assert rule["spec"]["groups"] == [*expected[0], *expected[1]]


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
