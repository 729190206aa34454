"""Pages name tests as proof: those must be there."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
PAGES = sorted((PROJECT / "docs").glob("*.md"))
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
def test_every_file_that_a_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())

    missing = [link for link in links if not (page.parent / link).exists()]

    assert missing == []
