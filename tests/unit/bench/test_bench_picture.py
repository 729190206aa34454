"""The ranges that are kept, and the picture of them, both written by targets."""

from xml.etree import ElementTree

import pytest

from tests.bench.bars import list_bars
from tests.bench.rangespec import read_rangespec
from tests.bench.spread import RANGESPEC
from tests.bench.whole.__main__ import ALL, ROUNDS, choose_sizes
from tests.kit.pages import PROJECT

SPEC = read_rangespec(PROJECT / RANGESPEC)
IMAGES = PROJECT / "docs/images"


def test_the_ranges_are_those_of_a_run_without_arguments() -> None:
    assert SPEC.sizes == choose_sizes(ALL, ROUNDS)
    assert {each.runs for each in SPEC.figures.values()} == {5}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_shows_what_the_ranges_say(scheme: str) -> None:
    picture = ElementTree.parse(IMAGES / f"bench-{scheme}.svg")
    shown = [text for each in picture.iter() if (text := (each.text or "").strip())]

    for bar in list_bars(SPEC):
        assert bar.what in shown
        assert f"beside {bar.floor}" in shown
        assert f"{bar.median:.2f}" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_the_picture(scheme: str) -> None:
    assert f"images/bench-{scheme}.svg" in (PROJECT / "docs/benchmarks.md").read_text()
