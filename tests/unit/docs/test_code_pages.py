"""Pages that explain codes, and the codes in the program, are one; so are pages rendered of it."""

import re
from collections.abc import Iterable

import pytest

from gpushare.analysis.adoption.notes import AdoptionCode
from gpushare.analysis.finding import FindingCode
from gpushare.analysis.migration.finding import MigrationCode
from gpushare.names import Reason
from tests.kit.values.doc_pages import DOCS, PROJECT
from tools.generated_pages import PAGES, render
from tools.program_messages import render_messages

ROW = r"^\| `([A-Z]\w+)` \| .+ \|$"
HEADING = r"^### (\w+)$"


def read(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


@pytest.mark.parametrize(
    ("page", "line", "codes"),
    [
        ("adoption", ROW, AdoptionCode),
        ("doctor", ROW, FindingCode),
        ("migration", ROW, MigrationCode),
        ("reasons", HEADING, Reason),
    ],
)
def test_a_page_explains_every_code_and_no_other(
    page: str, line: str, codes: Iterable[str]
) -> None:
    assert sorted(re.findall(line, read(page), re.MULTILINE)) == sorted(codes)


def test_every_reason_has_a_paragraph() -> None:
    sections = re.split(HEADING, read("reasons"), flags=re.MULTILINE)[1:]
    bodies = dict(zip(sections[::2], sections[1::2], strict=True))
    assert [code for code, body in bodies.items() if len(body.strip()) < 40] == []


def test_the_doctors_codes_have_their_severity() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| .+\.", read("doctor"), re.MULTILINE)
    assert rows == [(code, code.severity) for code in FindingCode]


def test_the_page_on_adoption_says_what_leaves_a_node_out() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", read("adoption"), re.MULTILINE)
    assert {code for code, of in rows if "left out" in of} == {
        code for code in AdoptionCode if code.leaves_out
    }


def test_what_the_page_on_migration_says_is_left_as_it_is_is_so() -> None:
    table = read("migration").split("| left as it is | why |")[1].split("\n\n")[0]
    left = {code for code in MigrationCode if code.is_left}
    assert set(re.findall(r"^\| `([A-Z]\w+)` ", table, re.MULTILINE)) == left


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_the_program_says(page: str) -> None:
    assert (DOCS / f"{page}.md").read_text() == render(page), "run `make program-docs`"


def test_the_list_of_messages_is_that_of_the_program() -> None:
    listed = (PROJECT / "tests/golden/messages.txt").read_text()
    assert listed == render_messages(), "run `make golden`"
