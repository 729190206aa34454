"""What pages have from the program is what the program says."""

import pytest

from tests.generated_pages import PAGES, render
from tests.kit.values.doc_pages import DOCS


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_the_program_says(page: str) -> None:
    assert (DOCS / f"{page}.md").read_text() == render(page), "run `make program-docs`"
