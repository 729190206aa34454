"""The committed pictures are of the dashboard as it is."""

import html
import re

import pytest

from tests.dashboard.panels import list_shown, parse_panel
from tests.kit.dashboards import FILES, read
from tests.kit.pages import DOCS

_TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


@pytest.mark.parametrize("name", ["dashboard-light", "dashboard-dark"])
def test_every_panel_that_the_picture_shows_is_in_it_under_its_title(name: str) -> None:
    (page,) = (read(file) for file in FILES if file.stem == "gpu-pools")
    drawn = {html.unescape(t) for t in _TEXT.findall((DOCS / f"images/{name}.svg").read_text())}
    titles = {panel.title for panel in list_shown([parse_panel(each) for each in page["panels"]])}
    assert len(titles) > 20
    assert titles <= drawn, "draw it anew: make dashboard-figures"


def test_both_pictures_tell_the_same() -> None:
    light, dark = (
        _TEXT.findall((DOCS / f"images/dashboard-{name}.svg").read_text())
        for name in ("light", "dark")
    )
    assert light == dark
