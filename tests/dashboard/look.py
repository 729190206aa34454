"""How a dashboard looks: Grafana's two themes, its palette, and measures."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """Colours of one theme."""

    page: str
    panel: str
    border: str
    text: str
    muted: str
    grid: str
    named: Mapping[str, str]
    """What thresholds and overrides call a colour."""
    lines: tuple[str, ...]
    """In turn for the lines of a panel."""


LOOKS: Mapping[str, Look] = {
    "light": Look(
        page="#f4f5f5",
        panel="#ffffff",
        border="#dcddde",
        text="#24292e",
        muted="#65686c",
        grid="#e6e7e7",
        named={
            "blue": "#1f60c4",
            "green": "#37872d",
            "orange": "#c25200",
            "red": "#c4162a",
            "yellow": "#c79a00",
        },
        lines=("#37872d", "#c79a00", "#1f60c4", "#e05a00", "#c4162a", "#8f3bb8", "#0f8f9c"),
    ),
    "dark": Look(
        page="#111217",
        panel="#181b1f",
        border="#2c3035",
        text="#d8d9dd",
        muted="#9fa1a8",
        grid="#292c31",
        named={
            "blue": "#5794f2",
            "green": "#73bf69",
            "orange": "#ff9830",
            "red": "#f2495c",
            "yellow": "#f2cc0c",
        },
        lines=("#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#4ed0dd"),
    ),
}
