"""The page on the guides answers each of their steps; `test_named_tests` follows its links."""

import re

from gpushare.api.pool import Edition
from tests.kit.values.doc_pages import DOCS, Page

PAGE = Page(DOCS / "guides.md")
_CELL = re.compile(r"(?<!\\)\|")
"""`\\|` is a bar within a cell."""
ROWS = [[cell.strip() for cell in _CELL.split(row)] for row in PAGE.table_rows]


def list_answers() -> list[list[str]]:
    """The rows of the guides' own tables, less their heads."""
    return [row for row in ROWS if len(row) == 3 and row[0] != "in the guide" and "---" not in row]


def test_every_row_says_what_one_does_now_and_where_it_is_described() -> None:
    assert {len(row) for row in ROWS} == {2, 3}
    answers = list_answers()
    assert len(answers) > 100
    assert [row for row in answers if not all(row) or "](" not in row[2]] == []


def test_every_guide_has_its_table_and_its_edition() -> None:
    guides = re.findall(r"^\| \[.+?\]\(#.+?\) .* \| `(\w+)` \|$", PAGE.text, re.MULTILINE)
    assert set(guides) == set(Edition)
    assert len(guides) == PAGE.text.count("\n| in the guide | now | where |\n") == 5


def test_every_command_of_ours_that_a_row_names_is_in_the_manual() -> None:
    manual = (DOCS / "cli.md").read_text()
    named = set(re.findall(r"`kubectl (gpushare (?:(?:render|migrate) )?[a-z-]+)", PAGE.text))
    assert len(named) > 5
    assert {command for command in named if f"\n## {command}\n" not in manual} == set()
