"""docs/testing.md has the table of what was seen on a real node."""

from pathlib import Path

from tests.node.behaviours import render_table

PAGE = Path(__file__).parents[3] / "docs/testing.md"


def test_the_page_has_the_table_as_the_test_has_it() -> None:
    assert render_table() in PAGE.read_text(), "python -m tests.node.behaviours prints it"
