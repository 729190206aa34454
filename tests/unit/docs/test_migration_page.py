"""The page on migration and the findings in the code are one."""

import re
from pathlib import Path

from gpushare.core.migration.finding import Code

PAGE = Path(__file__).parents[3] / "docs/migration.md"


def test_the_page_explains_every_finding_and_no_other() -> None:
    named = re.findall(r"^\| `([A-Z]\w+)` \| .{20,} \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(named) == sorted(Code)
