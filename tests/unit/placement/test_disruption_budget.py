"""How many pods of a PodDisruptionBudget may be evicted."""

from typing import Any

import pytest

from gpushare.analysis.placement.disruption_budget import parse_disruption_budget
from tests.kit.values.manifests import build_disruption_budget

_LABELS = {"app": "train", "tier": "batch"}
_IN: dict[str, Any] = {"key": "tier", "operator": "In", "values": ["batch", "web"]}


@pytest.mark.parametrize(
    ("selector", "covers"),
    [
        ({"matchLabels": {"app": "train"}}, True),
        ({"matchLabels": {"app": "other"}}, False),
        ({"matchExpressions": [_IN]}, True),
        (
            {"matchLabels": {"app": "train"}, "matchExpressions": [{**_IN, "values": ["web"]}]},
            False,
        ),
        (
            {"matchExpressions": [{**_IN, "values": [f"v{n}" for n in range(500)] + ["batch"]}]},
            True,
        ),
        ({}, True),
        (None, False),
    ],
    ids=["label", "other label", "in", "both", "many values", "empty", "none"],
)
def test_a_budget_covers_the_pods_that_its_selector_selects(
    selector: dict[str, Any] | None, covers: bool
) -> None:
    budget = parse_disruption_budget(build_disruption_budget(selector=selector))
    assert budget.covers("default", _LABELS) is covers


def test_a_budget_covers_no_pods_of_other_namespaces() -> None:
    budget = parse_disruption_budget(build_disruption_budget(selector={}))
    assert not budget.covers("other", _LABELS)


def test_a_selector_that_the_api_server_does_not_understand_covers_none() -> None:
    selector = {"matchExpressions": [{"key": "tier", "operator": "Near"}]}
    budget = parse_disruption_budget(build_disruption_budget(selector=selector))
    assert not budget.covers("default", _LABELS)


def test_a_budget_allows_as_many_evictions_as_its_status_says() -> None:
    assert parse_disruption_budget(build_disruption_budget(allowed=2)).allowed == 2


@pytest.mark.parametrize("status", [None, {"disruptionsAllowed": 2, "observedGeneration": 1}])
def test_a_budget_whose_status_is_not_of_its_spec_allows_none(
    status: dict[str, int] | None,
) -> None:
    raw = build_disruption_budget()
    raw["metadata"]["generation"] = 2
    assert parse_disruption_budget(raw | {"status": status}).allowed == 0
