"""Pages name tests as proof, and lead to one another: all of that must be there."""

import re
from pathlib import Path

import pytest

from tests.kit.values.doc_pages import PROJECT, Page

PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").glob("*.md")])
DEFINED = {
    name
    for file in (PROJECT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text()))

    assert named <= DEFINED


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_place_that_a_page_links_to_exists(page: Path) -> None:
    assert Page(page).missing == []
