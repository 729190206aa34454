"""The page of the doctor's codes and the codes are one."""

from pathlib import Path

from gpushare.core.doctor.finding import Code

PAGE = Path(__file__).parents[3] / "docs/doctor.md"


def test_the_page_has_every_code_with_its_severity_and_meaning_and_no_other() -> None:
    lines = PAGE.read_text().splitlines()
    table = [line for line in lines if line.startswith("| `")]
    assert table == [f"| `{code}` | {code.severity} | {code.meaning} |" for code in Code]
