"""A fault that lasts does not fill the log."""

import logging

import pytest

from gpushare.observe.flood import BURST, PERIOD_SECONDS, Flood
from tests.kit.values.clock import Clock


class Place:
    """A place in the code that logs again and again."""

    def __init__(self, flood: Flood, *, line: int = 1) -> None:
        self._flood = flood
        self._said = {"levelno": logging.WARNING, "pathname": "here.py", "lineno": line}

    def say(self, times: int, **extra: object) -> list[logging.LogRecord]:
        """What is let through."""
        records = [logging.makeLogRecord({**self._said, **extra}) for _ in range(times)]
        return [record for record in records if self._flood.filter(record)]


@pytest.fixture
def flood(clock: Clock) -> Flood:
    return Flood(clock)


def test_the_last_line_says_for_how_long_there_is_none(flood: Flood, clock: Clock) -> None:
    place = Place(flood)
    place.say(BURST - 1)
    clock.now += 4
    (last,) = place.say(1)
    assert vars(last)["muted_seconds"] == PERIOD_SECONDS - 4


@pytest.mark.parametrize(
    ("said", "through"),
    [({}, BURST), ({"levelno": logging.INFO}, 5_000), ({"lines": []}, 5_000)],
    ids=["the same", "changes", "many decisions"],
)
def test_of_a_fault_that_goes_on_only_so_many_lines_are_let_through(
    flood: Flood, said: dict[str, object], through: int
) -> None:
    assert len(Place(flood).say(5_000, **said)) == through
    assert len(Place(flood, line=2).say(1)) == 1


def test_the_next_line_says_how_many_were_left_out(flood: Flood, clock: Clock) -> None:
    place = Place(flood)
    place.say(BURST + 7)
    clock.now += PERIOD_SECONDS
    again = place.say(2)
    assert [vars(record).get("left_out") for record in again] == [7, None]
