"""docs/metrics.md tells of all metrics, and of no other."""

from pathlib import Path

from gpushare.observe.metrics import Metrics
from gpushare.observe.metrics.page import LABELS, render_page
from tests.kit.values.metrics import list_families

PAGE = Path(__file__).parents[3] / "docs/metrics.md"
FAMILIES = Metrics(per_node=True).families


def test_the_page_is_of_the_metrics_as_they_are() -> None:
    assert PAGE.read_text() == render_page(), "docs/metrics.md is stale; run `make metrics-docs`"


def test_each_metric_that_a_process_exports_has_its_row() -> None:
    rows = {line.split("`")[1] for line in PAGE.read_text().splitlines() if "| `gpushare_" in line}
    exported = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in list_families(Metrics(per_node=True))
        if family.name.startswith("gpushare_")
    }
    assert rows == exported


def test_every_label_is_explained_and_no_other() -> None:
    assert {label for family in FAMILIES for label in family.labels} == LABELS.keys()


def test_names_follow_the_conventions_of_prometheus() -> None:
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind == "counter"), family
        if family.kind == "histogram":
            assert family.name.endswith("_seconds"), family
        assert family.text.endswith("."), family
