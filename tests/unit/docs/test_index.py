"""The README is short, each page is found from the index, and what pages show is there."""

import re

from tests.kit.values.doc_pages import DOCS, PROJECT, Page


def test_the_index_leads_to_every_page() -> None:
    pages = {path.name for path in DOCS.glob("*.md") if not path.name.endswith(".zh-CN.md")}
    assert pages - set(Page(DOCS / "README.md").links) == {"README.md"}


def test_every_picture_is_on_a_page() -> None:
    pages = [*PROJECT.glob("*.md"), *DOCS.glob("*.md")]
    text = "".join(page.read_text() for page in pages)
    images = [path.name for path in (DOCS / "images").iterdir()]
    assert images
    assert [name for name in images if f"images/{name}" not in text] == []


def test_the_readme_is_no_longer_than_a_person_reads_and_shows_three_sessions() -> None:
    readme = Page(PROJECT / "README.md")
    assert len(readme.text.splitlines()) <= 132
    assert [block.language for block in readme.blocks].count("console") <= 3


def test_every_command_of_ours_that_the_guides_name_is_in_the_manual() -> None:
    manual, guides = (DOCS / "cli.md").read_text(), (DOCS / "guides.md").read_text()
    named = set(re.findall(r"`kubectl (gpushare (?:(?:render|migrate) )?[a-z-]+)", guides))
    assert len(named) > 5
    assert {command for command in named if f"\n## {command}\n" not in manual} == set()


def test_every_step_of_the_guides_has_its_answer_and_where_it_is_described() -> None:
    lines = (DOCS / "guides.md").read_text().splitlines()
    rows = [line.replace(r"\|", "")[1:-1].split("|") for line in lines if line[:1] == "|"]
    assert len(rows) > 100
    assert [row for row in rows if not all(map(str.strip, row))] == []
