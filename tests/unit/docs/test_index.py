"""The README is short, and each page is found from the index."""

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
    assert len(readme.text.splitlines()) <= 130
    assert [block.language for block in readme.blocks].count("console") <= 3
