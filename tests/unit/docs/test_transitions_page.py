"""The page of transitions and the table in the code are one."""

import re
from pathlib import Path

from gpushare.api.pool import Edition, Schedule
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import TRANSITIONS, UNKNOWN_STEPS

PAGE = (Path(__file__).parents[3] / "docs/transitions.md").read_text()
Needs = dict[str, tuple[str, ...]]


def read_table(heading: str) -> list[list[str]]:
    """The rows, its head among them, of the table in the section that `heading` opens."""
    section = PAGE.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def read_needs() -> Needs:
    return {need: tuple(rest) for need, *rest in read_table("What a change needs")[1:]}


def read_matrices() -> dict[tuple[Edition, str, Schedule], str]:
    cells = {}
    for edition in Edition:
        (_, *columns), *rows = read_table(f"{edition}:")
        for of, *needs in rows:
            for to, need in zip(columns, needs, strict=True):
                if need != "-":
                    cells[edition, of, Schedule(to)] = need
    return cells


def test_the_page_says_of_every_pair_what_the_code_does() -> None:
    needs = read_needs()
    shown = {pair: needs[need] for pair, need in read_matrices().items()}
    assert shown == {
        pair: (str(transition.outcome), transition.message, transition.source)
        for pair, transition in TRANSITIONS.items()
    }


def read_procedures() -> dict[str, tuple[str, ...]]:
    """The numbered steps under each heading of what a person does."""
    section = PAGE.split("\n## What a person does\n", 1)[1].split("\n## ", 1)[0]
    _, *parts = section.split("\n### ")
    found = {part.split("\n", 1)[0]: re.findall(r"^\d+\. (.*)$", part, re.M) for part in parts}
    return {heading: tuple(steps) for heading, steps in found.items() if steps}


def test_what_a_person_does_is_numbered_as_the_node_says_it() -> None:
    expected = {
        need: TRANSITIONS[pair].steps
        for pair, need in read_matrices().items()
        if TRANSITIONS[pair].outcome is Outcome.REQUIRES_MANUAL_ACTION
    }
    assert all(expected.values())
    assert read_procedures() == {**expected, "unknown": UNKNOWN_STEPS}


def test_every_need_that_the_page_explains_occurs() -> None:
    assert read_needs().keys() == set(read_matrices().values())


def test_the_page_names_only_reasons_that_there_are() -> None:
    reasons = (Path(__file__).parents[3] / "docs/reasons.md").read_text()
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z][A-Za-z]+)`", PAGE))
    assert {name for name in named if f"### {name}\n" not in reasons} == set()
