"""The page on migration and the findings in the code are one."""

import re
from pathlib import Path

from gpushare.core.migration.finding import Code, Finding

PAGE = Path(__file__).parents[3] / "docs/migration.md"


def test_the_page_explains_every_finding_and_no_other() -> None:
    named = re.findall(r"^\| `([A-Z]\w+)` \| .{20,} \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(named) == sorted(Code)


def test_what_the_page_says_is_left_as_it_is_is_so() -> None:
    table = PAGE.read_text().split("| left as it is | why |")[1].split("\n\n")[0]
    left = {code for code in Code if Finding(code, "").is_left}
    assert set(re.findall(r"^\| `([A-Z]\w+)` ", table, re.MULTILINE)) == left
