"""docs/metrics.md tells of all metrics, and of no other."""

import re

from gpushare.api.pool import Edition, Placement
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.write_outcome import ChangeOutcome
from gpushare.observe.metrics.controller import ControllerMetrics
from tests.kit.values.doc_pages import DOCS
from tests.kit.values.metrics import list_families

PAGE = (DOCS / "metrics.md").read_text()
FAMILIES = ControllerMetrics(per_node=True).families


def test_each_metric_that_a_process_exports_has_its_row() -> None:
    rows = {line.split("`")[1] for line in PAGE.splitlines() if "| `gpushare_" in line}
    exported = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in list_families(ControllerMetrics(per_node=True))
        if family.name.startswith("gpushare_")
    }
    assert rows == exported


def test_every_label_is_explained_with_its_values_and_no_other() -> None:
    table = PAGE.split("\n## Labels\n")[1].split("\n## ")[0]
    said = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE))
    assert {label for family in FAMILIES for label in family.labels} == said.keys()
    for label, values in (
        ("state", NodeState),
        ("outcome", ChangeOutcome),
        ("edition", Edition),
        ("placement", Placement),
    ):
        assert " ".join(values) in said[label]


def test_names_follow_the_conventions_of_prometheus() -> None:
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind == "counter"), family
        if family.kind == "histogram":
            assert family.name.endswith("_seconds"), family
        assert family.text.endswith("."), family
