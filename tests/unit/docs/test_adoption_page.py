"""The page on adoption and the codes are one."""

import re
from pathlib import Path

from gpushare.core.adoption.remarks import LEFT_OUT, Code

PAGE = (Path(__file__).parents[3] / "docs/adoption.md").read_text()
_ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)


def test_the_page_has_a_line_for_each_code_and_says_what_leaves_a_node_out() -> None:
    rows = {Code(code): of for code, of in _ROW.findall(PAGE)}
    assert list(rows) == list(Code)
    assert {code for code, of in rows.items() if "left out" in of} == LEFT_OUT
