"""What is read of a panel's JSON."""

from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.panels import SECTIONS, Panel, Place, Query, list_shown, parse_panel
from tests.kit.dashboards import FILES, read

Json = dict[str, Any]


def build_panel(kind: str = "timeseries", **more: Any) -> Json:
    """A panel of one query, as Grafana writes it."""
    target = {"refId": "A", "expr": "sum(rate(a_total[$__rate_interval]))", "legendFormat": "all"}
    return {
        "title": "All",
        "type": kind,
        "gridPos": {"x": 8, "y": 5, "w": 16, "h": 4},
        "fieldConfig": {"defaults": {"unit": "bytes"}, "overrides": []},
        "targets": [target],
        **more,
    }


def parse_with_defaults(**defaults: Any) -> Panel:
    return parse_panel(
        build_panel(fieldConfig={"defaults": {"unit": "s", **defaults}, "overrides": []})
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_panel_of_the_dashboards_can_be_read(file: Path) -> None:
    panels = [parse_panel(panel) for panel in read(file)["panels"]]
    assert all(panel.queries for panel in panels if panel.kind != "row")


def test_a_panel_has_its_place_its_unit_and_its_queries_as_grafana_sends_them() -> None:
    panel = parse_panel(build_panel())
    assert panel.place == Place(left=8, top=5, width=16, height=4)
    assert panel.unit == "bytes"
    assert panel.queries == (Query("A", "sum(rate(a_total[1m]))", "all"),)


def test_a_row_asks_nothing() -> None:
    row = {"title": "Pods", "type": "row", "gridPos": {"x": 0, "y": 9, "w": 24, "h": 1}}
    assert parse_panel(row) == Panel("Pods", "row", Place(0, 9, 24, 1))


def test_a_kind_that_nobody_can_draw_is_refused() -> None:
    with pytest.raises(ValueError, match=r"panel 'All' is a heatmap, .* row, stat, table, timese"):
        parse_panel(build_panel("heatmap"))


@pytest.mark.parametrize(("mode", "stacked"), [("normal", True), ("none", False)])
def test_lines_are_stacked_where_the_panel_says_so(mode: str, stacked: bool) -> None:
    panel = parse_with_defaults(custom={"stacking": {"mode": mode}, "fillOpacity": 30})
    assert panel.stacked is stacked
    assert panel.fill == pytest.approx(0.3)


@pytest.mark.parametrize(("value", "color"), [(-5, "blue"), (0.89, "blue"), (0.9, "orange")])
def test_a_threshold_colours_values_from_its_own_on(value: float, color: str) -> None:
    steps = [{"color": "blue", "value": None}, {"color": "orange", "value": 0.9}]
    panel = parse_with_defaults(thresholds={"mode": "absolute", "steps": steps})
    assert panel.find_color(value) == color


def test_a_tables_columns_are_hidden_ordered_and_called_as_it_says() -> None:
    organized = {
        "excludeByName": {"Time": True, "kept": False},
        "indexByName": {"pool": 0},
        "renameByName": {"Value #A": "Memory"},
    }
    override = {
        "matcher": {"id": "byName", "options": "Memory"},
        "properties": [{"id": "unit", "value": "bytes"}, {"id": "decimals", "value": 1}],
    }
    panel = parse_panel(
        build_panel(
            "table",
            transformations=[
                {"id": "merge", "options": {}},
                {"id": "organize", "options": organized},
            ],
            fieldConfig={"defaults": {"unit": "none"}, "overrides": [override]},
        )
    )
    assert panel.columns.hidden == {"Time"}
    assert panel.columns.order == {"pool": 0}
    assert panel.columns.titles == {"Value #A": "Memory"}
    assert panel.columns.units == {"Memory": "bytes"}


def test_a_line_has_the_colour_that_the_panel_gives_it() -> None:
    override = {
        "matcher": {"id": "byName", "options": "failed"},
        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": "red"}}],
    }
    config = {"defaults": {"unit": "none"}, "overrides": [override]}
    assert parse_panel(build_panel(fieldConfig=config)).colors == {"failed": "red"}


def test_the_picture_shows_the_upper_sections_with_their_headings() -> None:
    rows = [Panel(title, "row", Place(0, 0, 24, 1)) for title in (*SECTIONS, "Operator")]
    own = parse_panel(build_panel())
    panels = [panel for row in rows for panel in (row, own)]
    assert list_shown(panels) == panels[: 2 * len(SECTIONS)]
