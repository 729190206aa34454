"""The page of reasons and the registry in the code are one."""

import re
from pathlib import Path

from gpushare.names import Reason

PAGE = Path(__file__).parents[3] / "docs/reasons.md"
_HEADING = re.compile(r"^### (\w+)$", re.MULTILINE)


def test_the_page_explains_every_reason_and_no_other() -> None:
    assert sorted(_HEADING.findall(PAGE.read_text())) == sorted(Reason)


def test_every_reason_has_a_paragraph() -> None:
    sections = _HEADING.split(PAGE.read_text())[1:]
    bodies = dict(zip(sections[::2], sections[1::2], strict=True))
    assert [code for code, body in bodies.items() if len(body.strip()) < 40] == []
