"""The scheduler's ledger, which anybody who may write pods can write."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devcluster.simulator.ledger import build_entry
from devcluster.simulator.objects import Container
from devcluster.simulator.objects import Node as PlayedNode
from devcluster.simulator.objects import Pod as PlayedPod
from gpushare import names
from gpushare.api.k8s.card_annotations import MAX_DIGITS, MAX_TEXT, parse_ledger

ALLOCATION = names.ANNOTATION_ALLOCATION
CARD, UNITS = names.ANNOTATION_CARD, names.ANNOTATION_CARD_UNITS


OLDER = {CARD: "3", UNITS: "7"}


@pytest.mark.parametrize(
    ("entry", "cards"),
    [
        ({ALLOCATION: '{"0": {"0": 4, "1": 4}, "2": {"1": 2}}'}, {0: 4, 1: 6}),
        (OLDER, {3: 7}),
        ({ALLOCATION: '{"0": {"0": 4}}', **OLDER}, {0: 4}),
        *(
            ({ALLOCATION: unreadable, **OLDER}, {3: 7})
            for unreadable in ("", "{}", "[]", "nonsense", '{"0": {"card": 4}}')
        ),
    ],
)
def test_the_newer_entry_goes_before_the_older_one_of_one_card(
    entry: dict[str, str], cards: dict[int, int]
) -> None:
    assert parse_ledger(entry, 7, 10) == cards


def test_an_entry_of_more_than_the_pod_asks_for_is_no_entry() -> None:
    """A tenant must not fill other tenants' cards by an annotation on its own pod."""
    entry = {ALLOCATION: '{"0": {"0": 4, "1": 4}}'}
    assert parse_ledger(entry, 8, 8) == {0: 4, 1: 4}
    assert parse_ledger(entry, 7, 7) == {}
    assert parse_ledger(entry | OLDER, 7, 7) == {3: 7}


@pytest.mark.parametrize(
    "allocation",
    [
        '{"0": {"-1": 4}}',
        '{"0": {"0": -4}}',
        '{"0": {"0": 4.5}}',
        '{"0": {"0": true}}',
        '{"0": {"0": "4"}}',
        '{"0": {"0": 1e30}}',
        '{"0": {"0": 4}, "1": 5}',
        '{"0": {"0": 4}, "1": {"x": 5}}',
        f'{{"0": {{"0": {10**MAX_DIGITS}}}}}',
        "[" * MAX_TEXT,
        '{"0": {"0": 4}}' + " " * MAX_TEXT,
    ],
)
def test_an_entry_that_can_not_be_is_no_entry(allocation: str) -> None:
    assert parse_ledger({ALLOCATION: allocation}, 7, 10**20) == {}


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        *[("+1", {1: 7}), ("01", {1: 7}), ("-0", {0: 7}), ("7", {7: 7})],
        *[("0" * 30 + "1", {1: 7}), ("-" + "0" * 30, {0: 7})],
        *[(None, {}), ("-1", {}), ("1_0", {}), (" 1", {}), ("++1", {}), ("\u0663", {})],
        ("9" * 5000, {}),
    ],
)
def test_the_number_of_a_card_is_read_as_the_extender_reads_it(
    text: str | None, cards: dict[int, int]
) -> None:
    assert parse_ledger({UNITS: "7"} | ({} if text is None else {CARD: text}), 7, 7) == cards


@pytest.mark.parametrize("edited", ["1", "80", "-8", "nonsense", ""])
def test_an_edited_amount_changes_nothing_as_the_extender_keeps_the_limits(edited: str) -> None:
    assert parse_ledger({CARD: "0", UNITS: edited}, 8, 8) == {0: 8}
    assert parse_ledger({CARD: "0", UNITS: edited}, 0, 8) == {}


SCHEDULED = PlayedPod(
    "uid",
    "pod",
    containers=(Container("main", {"aliyun.com/gpu-mem": 8}), Container("side", {"cpu": 1})),
)


@pytest.mark.parametrize(
    ("labels", "cards"),
    [({"ack.node.gpu.schedule": "cgpu"}, {1: 4, 3: 4}), ({"cgpu": "true"}, {1: 8})],
)
def test_what_the_simulators_write_is_read(labels: dict[str, str], cards: dict[int, int]) -> None:
    node = PlayedNode("gpu-1", labels=labels)
    assert parse_ledger(build_entry(SCHEDULED, node, [1, 3], now=0), 8, 8) == cards


_CARDS = st.dictionaries(st.integers(0, 15).map(str), st.integers(0, 96), max_size=8)
_ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_NEARLY = st.dictionaries(
    st.text(max_size=2), st.dictionaries(st.integers().map(str) | st.text(), _ANY) | _ANY
)


@given(st.text() | _NEARLY.map(json.dumps), st.text(), st.text())
def test_any_text_gives_small_numbers_or_nothing(allocation: str, card: str, units: str) -> None:
    cards = parse_ledger({ALLOCATION: allocation, CARD: card, UNITS: units}, 7, 50)
    assert all(0 <= index < 10**18 for index in cards)
    assert all(units >= 0 for units in cards.values())
    assert sum(cards.values()) <= 50


@given(st.dictionaries(st.integers(0, 9).map(str), _CARDS, max_size=4))
def test_nothing_is_lost_of_an_entry_that_is_read(allocation: dict[str, dict[str, int]]) -> None:
    held = sum(sum(units.values()) for units in allocation.values())
    assert sum(parse_ledger({ALLOCATION: json.dumps(allocation)}, held, held).values()) == held
