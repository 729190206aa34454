"""The dashboards: whole, and of metrics that there are."""

import re
from pathlib import Path

import pytest

from tests.kit.dashboards import (
    FILES,
    FOREIGN,
    FROM_EXPORTERS,
    RECORDS,
    fill_in,
    list_known,
    list_panels,
    list_queries,
    read,
)
from tests.unit.chart.promql import list_matched_labels, list_metrics

KNOWN = {**list_known(), **FOREIGN, **RECORDS}

every = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@every
def test_every_panel_has_a_description_a_unit_and_a_place_of_its_own(file: Path) -> None:
    panels = list_panels(read(file))
    for panel in panels:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
    every_panel = read(file)["panels"]
    assert len({panel["id"] for panel in every_panel}) == len(every_panel)
    places = [
        (place["x"] + x, place["y"] + y)
        for place in (panel["gridPos"] for panel in every_panel)
        for x in range(place["w"])
        for y in range(place["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24


@every
def test_every_query_is_of_metrics_and_labels_that_there_are(file: Path) -> None:
    for title, query in list_queries(read(file)):
        assert list_metrics(query), (title, query)
        assert list_metrics(query) <= KNOWN.keys(), (title, query)
        for metric, label in list_matched_labels(query):
            assert label in KNOWN[metric], (title, metric, label)


@every
def test_every_choice_is_of_metrics_and_labels_that_there_are(file: Path) -> None:
    for variable in read(file)["templating"]["list"]:
        if variable["type"] != "query":
            continue
        selector, _, label = (
            variable["query"]["query"].partition("label_values(")[2].rpartition(",")
        )
        (metric,) = list_metrics(fill_in(selector))
        assert label.strip(" )") in KNOWN[metric]
        assert {of for _, of in list_matched_labels(fill_in(selector))} <= KNOWN[metric]


@every
def test_no_panel_is_empty_where_no_exporter_runs_on_the_nodes(file: Path) -> None:
    for panel in list_panels(read(file)):
        queries = [fill_in(target["expr"]) for target in panel["targets"]]
        assert any(not list_metrics(query) & FROM_EXPORTERS for query in queries), panel["title"]


def test_the_dashboard_of_teams_reads_only_what_is_kept_for_months() -> None:
    (page,) = (read(file) for file in FILES if file.stem == "gpu-teams")
    read_there = {metric for _, query in list_queries(page) for metric in list_metrics(query)}
    choices = [
        each["query"]["query"] for each in page["templating"]["list"] if each["type"] == "query"
    ]
    assert read_there == RECORDS.keys()
    assert all(any(record in choice for record in RECORDS) for choice in choices)


def test_a_sample_of_an_hour_is_read_with_a_range() -> None:
    for file in FILES:
        for title, query in list_queries(read(file)):
            bare = re.sub(r":avg1h(\{[^}]*\})?\[", "", query)
            assert ":avg1h" not in bare, (file.stem, title)


def test_every_metric_that_a_chart_can_show_is_on_a_dashboard() -> None:
    shown = {
        m for file in FILES for _, query in list_queries(read(file)) for m in list_metrics(query)
    }
    # A histogram is shown by its quantiles.
    plain = {name for name in list_known() if not name.endswith(("_sum", "_count"))}
    assert plain - shown == set()
