"""What docs/transitions.md has from the program leaves no change without an answer."""

import re
from pathlib import Path

from gpushare.editions.edition import Outcome
from gpushare.editions.registry import EDITIONS, TRANSITIONS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "transitions.md").read_text()


def test_a_change_has_steps_where_it_is_manual_and_only_there() -> None:
    for pair, change in TRANSITIONS.items():
        assert bool(change.steps) == (change.outcome is Outcome.REQUIRES_MANUAL_ACTION), pair


def test_no_two_editions_have_a_need_of_the_same_name() -> None:
    needs = [need for edition in EDITIONS.values() for need in edition.needs]
    assert len(needs) == len(set(needs))


def test_every_need_that_the_page_explains_occurs() -> None:
    for edition in EDITIONS.values():
        assert edition.needs.keys() <= set(edition.matrix.split())


def test_the_page_names_only_reasons_that_there_are() -> None:
    reasons = (DOCS / "reasons.md").read_text()
    named = set(re.findall(r"`([A-Z][a-z]+[A-Z][A-Za-z]+)`", PAGE))
    assert {name for name in named if f"### {name}\n" not in reasons} == set()
