"""Recording rules and alerts: of metrics that there are, each alert with runbook and cases."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.startup import CHART
from gpushare.names import Reason
from tests.kit.dashboards import list_known
from tests.kit.promql import list_matched_labels, list_metrics

ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / "docs/runbooks.md"
CASES = ROOT / "tests/integration/rules-test.yaml"
RULES = [
    rule
    for group in yaml.safe_load((CHART / "files/rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED = {rule["record"]: rule for rule in RULES if "record" in rule}
SECTIONS = dict(
    re.findall(r"^## (\w+)\n(.+?)(?=^## |\Z)", RUNBOOKS.read_text(), re.DOTALL | re.MULTILINE)
)

every_alert = pytest.mark.parametrize("alert", ALERTS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_every_rule_is_of_metrics_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    known = list_known()
    metrics = list_metrics(rule["expr"])
    assert metrics
    assert metrics <= known.keys() | RECORDED.keys()
    for metric, label in list_matched_labels(rule["expr"]):
        assert label in known[metric]


def test_every_reason_in_a_rule_is_one() -> None:
    named = {
        reason
        for rule in RULES
        for value in re.findall(r'reason=~?"([^"]+)"', rule["expr"])
        for reason in value.split("|")
    }
    assert named
    assert named <= set(Reason)


@every_alert
def test_an_alert_waits_and_says_what_is_and_how_bad_it_is(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["for"]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}


@every_alert
def test_an_alert_leads_to_its_own_section_of_the_runbooks(alert: str) -> None:
    # As Git hosts make an anchor of a heading.
    assert ALERTS[alert]["annotations"]["runbook_url"] == f"docs/runbooks.md#{alert.lower()}"


def test_the_runbooks_have_a_section_for_each_alert_and_no_other() -> None:
    assert list(SECTIONS) == list(ALERTS)


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
        for group in yaml.safe_load(CASES.read_text())["tests"]
        for test in group.get("alert_rule_test", ())
        if test["alertname"] == alert
    ]
    assert set(cases) == {True, False}


@pytest.mark.parametrize("record", RECORDED)
def test_what_is_recorded_is_alerted_on_or_has_a_case(record: str) -> None:
    alerted = any(record in rule["expr"] for rule in ALERTS.values())
    assert alerted or f"expr: {record}" in CASES.read_text()
