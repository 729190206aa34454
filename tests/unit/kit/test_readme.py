"""The examples of tests/kit/README.md are tests that pass."""

from inspect import signature
from typing import Any

import pytest

from tests.kit.values.doc_pages import PROJECT, Block, Page

_README = Page(PROJECT / "tests/kit/README.md")
_BLOCKS = [b for b in _README.blocks if b.language == "python"]


@pytest.mark.parametrize(
    "block", _BLOCKS, ids=lambda block: block.text.partition("def ")[2].partition("(")[0]
)
def test_an_example_imports_what_there_is_and_passes_where_it_needs_no_cluster(
    block: Block,
) -> None:
    found: dict[str, Any] = {}
    exec(block.text, found)
    tests = [test for name, test in found.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        if not signature(test).parameters:
            test()


def test_its_links_lead_somewhere() -> None:
    assert _README.missing == []
