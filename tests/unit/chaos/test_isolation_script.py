"""Histories of nodes have in them what the proof needs."""

import random

import pytest

from gpushare.api.pool import Edition, Schedule
from gpushare.core.modes import MODES
from gpushare.core.transitions import Outcome
from tests.chaos.isolation_script import (
    SHARING,
    Event,
    choose_mode,
    find_change,
    write_script,
)

EDITIONS = (Edition.PROFESSIONAL, Edition.BASIC)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("crashes", [True, False])
def test_each_kind_of_event_is_in_every_script_but_the_crash(seed: int, crashes: bool) -> None:
    script = write_script(random.Random(seed), crashes=crashes)

    assert set(Event) - {Event.CRASH} <= set(script)
    assert script.count(Event.CRASH) == crashes
    assert script == write_script(random.Random(seed), crashes=crashes)


@pytest.mark.parametrize("edition", EDITIONS)
def test_modes_are_chosen_that_need_no_new_node(edition: Edition) -> None:
    chance = random.Random(0)
    for of in SHARING | {Schedule.DEFAULT}:
        if (edition, of) in MODES:
            chosen = {choose_mode(chance, edition, of) for _ in range(50)}
            assert of not in chosen
            outcomes = {find_change(edition, of, to).outcome for to in chosen}
            assert Outcome.REQUIRES_PERSON not in outcomes
