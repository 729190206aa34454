"""Rules and dashboards by Prometheus' own tools, and as the chart gives them to a cluster."""

import subprocess
from pathlib import Path

import pytest
import yaml

from devcluster.startup import CHART
from gpushare.analysis.usage.exporters import EXPORTERS, Exporter
from tests.integration.chart.chart_values import Values, render_objects
from tests.kit.bench import Bench, Json
from tests.kit.dashboards import FILES

RULES = CHART / "files/rules.yaml"
MOVES = CHART / "files/rules-moves.yaml"
WEBHOOK = CHART / "files/rules-webhook.yaml"
USAGE = CHART / "files/rules-usage.yaml"
CASES = Path(__file__).with_name("rules-test.yaml")
HOURLY_CASES = Path(__file__).with_name("rules-usage-test.yaml")
RECORDED = [each for each in EXPORTERS if each.name != "dcgm-exporter"]
"""Exporters whose series are recorded: NVIDIA's does not say whether other pods use the card."""


def run_promtool(folder: Path, *arguments: str | Path) -> None:
    """Fails with what it says where it finds a flaw."""
    command = [folder / "promtool", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_the_rules_are_valid_and_none_is_there_twice(prometheus_programs: Path) -> None:
    files = (RULES, MOVES, USAGE, WEBHOOK)
    run_promtool(prometheus_programs, "check", "rules", "--lint=all", "--lint-fatal", *files)


def test_alerts_fire_where_they_must_and_only_there(prometheus_programs: Path) -> None:
    run_promtool(prometheus_programs, "test", "rules", CASES)


def test_each_hour_of_memory_is_recorded_once(prometheus_programs: Path) -> None:
    run_promtool(prometheus_programs, "test", "rules", HOURLY_CASES)


@pytest.mark.parametrize("first", range(len(RECORDED)), ids=lambda first: RECORDED[first].pod)
def test_each_exporter_is_read_as_the_command_usage_reads_it(
    prometheus_programs: Path, tmp_path: Path, first: int
) -> None:
    """By its labels and in its unit, before those that come later in the table."""
    exporter = RECORDED[first]
    later = [each for each in RECORDED[first + 1 :] if each.series != exporter.series]
    series = [
        build_series(each, gib, reader)
        for gib, each in enumerate((exporter, *later), 1)
        for reader in ("one", "two")
    ]
    info = {"series": 'gpushare_node_info{pool="training", node="n1"}', "values": "1x60"}
    record = "gpushare:namespace_pool_memory_used_bytes:avg1h"
    pool = ', pool="training"' if exporter.node else ""
    expected = {"labels": f'{record}{{namespace="ml"{pool}}}', "value": 2**30}
    case = {
        "interval": "1m",
        "input_series": [info, *series],
        "promql_expr_test": [{"expr": record, "eval_time": "1h", "exp_samples": [expected]}],
    }
    file = tmp_path / "test.yaml"
    document = {"rule_files": [str(USAGE)], "evaluation_interval": "1h", "tests": [case]}
    file.write_text(yaml.safe_dump(document))

    run_promtool(prometheus_programs, "test", "rules", file)


def build_series(exporter: Exporter, gib: int, reader: str) -> Json:
    """Build what a reader of an exporter has, of a pod that uses so many GiB of a card."""
    own = {
        **dict.fromkeys(exporter.key, "any"),
        **dict.fromkeys(exporter.added, reader),
        exporter.namespace: "ml",
        exporter.pod: "p",
    }
    if exporter.node:
        own[exporter.node] = "n1"
    if exporter.of_card:
        own["AllocateMode"] = "exclusive"
    labels = ", ".join(f'{name}="{value}"' for name, value in own.items())
    return {
        "series": f"{exporter.series}{{{labels}}}",
        "values": f"{gib * 2**30 // exporter.bytes_per_unit}x60",
    }


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
    texts = [path.read_text() for path in (RULES, USAGE, WEBHOOK)]
    own_links = [text.replace("runbook: docs/runbooks.md", f"runbook_url: {own}") for text in texts]
    assert rule["spec"] == {"groups": [group for text in own_links for group in read_groups(text)]}


def read_groups(text: str) -> list[Json]:
    groups: list[Json] = yaml.safe_load(text)["groups"]
    return groups


@pytest.mark.parametrize(
    ("moves", "usage", "webhook", "files"),
    [
        (False, False, False, [RULES]),
        (True, False, False, [RULES, MOVES]),
        (True, True, True, [RULES, MOVES, USAGE, WEBHOOK]),
    ],
)
def test_rules_of_their_own_are_added_where_they_are_switched_on(
    installed: Bench, moves: bool, usage: bool, webhook: bool, files: list[Path]
) -> None:
    values = {
        "prometheusRule.enabled": True,
        "prometheusRule.recommendedMoves": moves,
        "prometheusRule.usage": usage,
        "webhook.enabled": webhook,
        "admissionPolicy.enabled": True,
    }
    (rule,) = render(installed, "PrometheusRule", values)
    expected = [group for file in files for group in read_groups(file.read_text())]
    assert rule["spec"]["groups"] == expected


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
