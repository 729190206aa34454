"""The panels of a dashboard, as its JSON describes them to Grafana."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tests.kit.dashboards import fill_in

Json = dict[str, Any]
Kind = Literal["row", "stat", "table", "timeseries"]

SECTIONS = ("GPU memory", "Nodes", "Pods")
"""Rows of panels in the picture of the dashboard of pools: its upper ones, without the operator's
own figures."""
_KINDS: tuple[str, ...] = get_args(Kind)
_RATE_INTERVAL = "1m"
"""What Grafana makes of $__rate_interval while nobody has told it the interval of scrapes: four
times 15 s."""


@dataclass(frozen=True)
class Place:
    """On Grafana's grid of 24 columns, from its upper left corner."""

    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True)
class Query:
    """What a panel asks of Prometheus; the values are a table's column `Value #NAME`."""

    name: str
    expression: str
    legend: str


@dataclass(frozen=True)
class Columns:
    """How a table shows what it got: without some columns, and others under another title."""

    hidden: frozenset[str] = frozenset()
    order: Mapping[str, int] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    """By title, where it is not the panel's unit."""


@dataclass(frozen=True)
class Panel:
    """One panel, or a row, which is the heading of those below it."""

    title: str
    kind: Kind
    place: Place
    unit: str = "none"
    queries: tuple[Query, ...] = ()
    stacked: bool = False
    fill: float = 0.0
    """Opacity of the area below a line."""
    maximum: float | None = None
    """Of the axis, where that is not for the values to say."""
    thresholds: tuple[tuple[float, str], ...] = ()
    """Colours of a value, each from a number on, ascending."""
    columns: Columns = Columns()
    colors: Mapping[str, str] = field(default_factory=dict)
    """Of lines that have the same whatever others there are, by name."""

    def find_color(self, value: float) -> str:
        """What the thresholds call the colour of a value."""
        return [color for begin, color in self.thresholds if begin <= value][-1]


def parse_panel(panel: Json) -> Panel:
    """One of a dashboard's `panels`; raises ValueError for a kind that nobody here can draw."""
    title, kind, grid = panel["title"], panel["type"], panel["gridPos"]
    if kind not in _KINDS:
        raise ValueError(
            f"panel {title!r} is a {kind}, and what can be drawn is {', '.join(_KINDS)}: teach "
            "tests/dashboard to draw it, or make it one of these."
        )
    place = Place(grid["x"], grid["y"], grid["w"], grid["h"])
    if kind == "row":
        return Panel(title, kind, place)
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults.get("custom", {})
    return Panel(
        title,
        kind,
        place,
        unit=defaults["unit"],
        queries=tuple(_parse_query(target) for target in panel["targets"]),
        stacked=custom.get("stacking", {}).get("mode") == "normal",
        fill=custom.get("fillOpacity", 0) / 100,
        maximum=defaults.get("max"),
        thresholds=tuple(
            (float("-inf") if step["value"] is None else step["value"], step["color"])
            for step in defaults.get("thresholds", {}).get("steps", [])
        ),
        columns=_parse_columns(panel),
        colors={name: value["fixedColor"] for name, value in _list_overrides(panel, "color")},
    )


def list_shown(panels: Iterable[Panel]) -> list[Panel]:
    """Those of the sections that are in the picture, with their headings."""
    shown, section = [], ""
    for panel in panels:
        if panel.kind == "row":
            section = panel.title
        if section in SECTIONS:
            shown.append(panel)
    return shown


def _parse_query(target: Json) -> Query:
    expression = fill_in(target["expr"], rate_interval=_RATE_INTERVAL)
    return Query(target["refId"], expression, target.get("legendFormat", ""))


def _parse_columns(panel: Json) -> Columns:
    transformations = panel.get("transformations", [])
    organized: Json = next((t["options"] for t in transformations if t["id"] == "organize"), {})
    return Columns(
        hidden=frozenset(
            name for name, hidden in organized.get("excludeByName", {}).items() if hidden
        ),
        order=organized.get("indexByName", {}),
        titles=organized.get("renameByName", {}),
        units=dict(_list_overrides(panel, "unit")),
    )


def _list_overrides(panel: Json, what: str) -> Iterator[tuple[str, Any]]:
    """What the panel says otherwise of the column or line of a name."""
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"]["id"] == "byName":
            for each in override["properties"]:
                if each["id"] == what:
                    yield override["matcher"]["options"], each["value"]
