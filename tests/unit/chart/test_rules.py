"""Recording rules and alerts: of metrics that there are, each alert with runbook and cases."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.startup import CHART
from gpushare.core.status.unschedulable_pods import REASONS
from gpushare.names import Reason
from gpushare.webhook import cache as memory
from gpushare.webhook import handler as handler
from gpushare.webhook import server
from tests.kit.dashboards import FOREIGN, RECORDS, list_known
from tests.unit.chart.promql import list_matched_labels, list_metrics

ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / "docs/runbooks.md"
CASES = [
    case
    for name in ("rules-test.yaml", "rules-usage-test.yaml")
    for case in yaml.safe_load((ROOT / "tests/integration/install" / name).read_text())["tests"]
]
RULES = [
    rule
    for name in ("rules.yaml", "rules-webhook.yaml", "rules-moves.yaml", "rules-usage.yaml")
    for group in yaml.safe_load((CHART / "files" / name).read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"]: rule for rule in RULES if "record" in rule}
SECTIONS = dict(
    re.findall(r"^## (\w+)\n(.+?)(?=^## |\Z)", RUNBOOKS.read_text(), re.DOTALL | re.MULTILINE)
)

API_SERVER = {
    "apiserver_admission_webhook_fail_open_count": {"name", "type"},
    "apiserver_admission_webhook_rejection_count": {"name", "type", "operation", "error_type"},
}
"""What it counts itself ("Kubernetes Metrics Reference")."""
PROMETHEUS = {"up": {"job", "instance"}}
"""What it knows of each process that it reads."""

every_alert = pytest.mark.parametrize("alert", ALERTS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_every_rule_is_of_metrics_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    known = {**list_known(), **FOREIGN, **API_SERVER, **PROMETHEUS}
    metrics = list_metrics(rule["expr"])
    assert metrics
    assert metrics <= known.keys() | RECORDED.keys()
    for metric, label in list_matched_labels(rule["expr"]):
        assert label in known[metric]


def test_every_reason_in_a_rule_is_one() -> None:
    named = {reason for rule in RULES for reason in list_reasons(rule["expr"])}
    assert named
    assert named <= set(Reason)


def list_reasons(expression: str) -> set[str]:
    return {
        reason
        for value in re.findall(r'reason=~?"([^"]+)"', expression)
        for reason in value.split("|")
    }


def test_there_is_one_alert_for_each_reason_why_a_pod_has_no_place() -> None:
    named = [
        reason
        for rule in ALERTS.values()
        if "gpushare_unschedulable_pods" in rule["expr"]
        for reason in list_reasons(rule["expr"])
    ]
    assert sorted(named) == sorted(REASONS)


def test_every_reason_why_a_call_is_not_decided_is_in_the_share_of_such_calls() -> None:
    rule = RECORDED["gpushare:admission_requests_undecided:ratio_rate5m"]
    failing = "".join(inspect.getsource(module) for module in (server, memory, handler))
    told = {Reason[name] for name in re.findall(r"\bReason\.(\w+)", failing)}
    assert list_reasons(rule["expr"]) == told - {Reason.MALFORMED_REVIEW}


@every_alert
def test_an_alert_waits_and_says_what_is_and_how_bad_it_is(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["for"]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}


def test_each_alert_leads_to_its_own_section_of_the_runbooks() -> None:
    assert list(SECTIONS) == list(ALERTS)
    for alert, rule in ALERTS.items():
        # As Git hosts make an anchor of a heading.
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{alert.lower()}"


@every_alert
def test_a_runbook_says_what_it_means_where_to_look_and_what_to_do(alert: str) -> None:
    parts = ["**What it means.**", "**Look.**", "```sh", "**Do.**"]
    found = [SECTIONS[alert].find(part) for part in parts]
    assert -1 not in found
    assert found == sorted(found)


@every_alert
def test_an_alert_has_a_case_in_which_it_fires_and_one_in_which_it_must_not(alert: str) -> None:
    cases = [
        bool(test["exp_alerts"])
        for group in CASES
        for test in group.get("alert_rule_test", ())
        if test["alertname"] == alert
    ]
    assert set(cases) == {True, False}


@pytest.mark.parametrize("record", RECORDED)
def test_what_is_recorded_is_alerted_on_or_has_a_case(record: str) -> None:
    alerted = any(record in rule["expr"] for rule in ALERTS.values())
    asked = (case["expr"] for group in CASES for case in group.get("promql_expr_test", ()))
    assert alerted or any(record in list_metrics(expression) for expression in asked)


def test_what_is_kept_for_months_is_what_dashboards_and_pages_know() -> None:
    kept = {record for record in RECORDED if record.endswith(":avg1h")}
    page = (ROOT / "docs/metrics.md").read_text()
    assert kept == RECORDS.keys()
    assert {record for record in kept if f"`{record}`" not in page} == set()


def test_what_pods_use_is_found_alike_whether_their_pool_is_known_or_not() -> None:
    expression = RECORDED["gpushare:namespace_pool_memory_used_bytes:avg1h"]["expr"]
    _, known, unknown = re.split(r"^ {4}\(\n", expression, flags=re.MULTILINE)
    first, second = (half.partition("\n    )\n")[0] for half in (known, unknown))
    assert first
    assert first == second
