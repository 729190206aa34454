"""Pages that exist in Simplified Chinese too say the same there."""

import re

import pytest

from tests.kit.values.doc_pages import DOCS, PROJECT, Page

TRANSLATED = [
    PROJECT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in (
            "README",
            "ack",
            "admission",
            "adoption",
            "autoscaling",
            "change-windows",
            "dashboards",
            "elastic",
            "first-week",
            "guides",
            "install",
            "isolation",
            "nvidia",
            "opensource",
            "pools",
            "quickstart-kind",
            "reasons",
            "rollout",
            "runbooks",
            "security-questions",
            "simulate",
            "teardown",
            "tenants",
            "usage",
            "workloads",
        )
    ),
]
PAIRS = [(Page(path), Page(path.with_suffix(".zh-CN.md"))) for path in TRANSLATED]
each_pair = pytest.mark.parametrize(
    ("english", "chinese"), PAIRS, ids=[str(path.relative_to(PROJECT)) for path in TRANSLATED]
)
WITHOUT_CODE = (DOCS / "README.md", DOCS / "guides.md")
_CODE = re.compile(r"`([^`\n]+)`")


@each_pair
def test_code_and_headings_are_the_same_in_both_languages(english: Page, chinese: Page) -> None:
    assert english.blocks or english.path in WITHOUT_CODE
    assert (chinese.blocks, chinese.headings) == (english.blocks, english.headings)


@each_pair
def test_each_row_of_a_table_names_the_same_in_both_languages(english: Page, chinese: Page) -> None:
    # Names, fields and messages stand in backquotes, and are not translated.
    pages = (english, chinese)
    rows = [[sorted(_CODE.findall(row)) for row in page.table_rows] for page in pages]
    assert rows[0] == rows[1]


@each_pair
def test_each_language_leads_to_the_other_at_its_top(english: Page, chinese: Page) -> None:
    assert english.links[0] == chinese.path.name
    assert chinese.links[0] == english.path.name


@each_pair
def test_a_chinese_page_leads_to_chinese_pages_where_there_are(
    english: Page, chinese: Page
) -> None:
    def to_chinese(file: str) -> str:
        target = (english.path.parent / file).resolve()
        return file.removesuffix(".md") + ".zh-CN.md" if target in TRANSLATED else file

    # Headings have other names there; the first link is how one comes to the other language.
    wanted, found = (
        {link.partition("#")[0] for link in page.links[1:]} for page in (english, chinese)
    )
    assert found == {to_chinese(file) for file in wanted}


def test_every_chinese_page_is_held_to_its_english_one() -> None:
    found = {*PROJECT.glob("*.zh-CN.md"), *DOCS.glob("*.zh-CN.md")}
    assert found == {chinese.path for _, chinese in PAIRS}
