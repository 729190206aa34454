"""The scheduler's ledger of GPU memory: which cards a pod holds, as its annotations say.

Anybody who may write pods can write these, so nothing in them is believed to be well-formed.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import orjson

from gpushare import names

MAX_TEXT = 4096
"""An entry of ten containers on sixteen cards is a third of this; what is longer is no entry."""
MAX_DIGITS = 8
"""Of an index or an amount; a card of a tebibyte, counted in MiB, has seven."""
_KEPT = 1024

NO_CARDS: Mapping[int, int] = MappingProxyType({})


def parse_ledger(annotations: Mapping[str, str]) -> Mapping[int, int]:
    """Units of GPU memory by index of the card; empty where there is no entry that can be read.

    The Professional scheduler's entry, `{container: {card: units}}`, goes first; else the older
    one of the Basic and open-source schedulers: one card, and the units of the whole pod. Never
    raises. Equal entries are one object, kept once.
    """
    allocation = annotations.get(names.ANNOTATION_ALLOCATION, "")
    if 0 < len(allocation) <= MAX_TEXT and (cards := _parse_allocation(allocation)):
        return cards
    card = annotations.get(names.ANNOTATION_CARD, "")
    units = annotations.get(names.ANNOTATION_CARD_UNITS, "")
    return _parse_card(card, units) if max(len(card), len(units)) <= MAX_DIGITS else NO_CARDS


@lru_cache(_KEPT)
def _parse_allocation(text: str) -> Mapping[int, int]:
    cards: dict[int, int] = {}
    try:
        for held in orjson.loads(text).values():
            for card, units in held.items():
                index = parse_count(card)
                if index is None or type(units) is not int or not 0 <= units < 10**MAX_DIGITS:
                    return NO_CARDS
                cards[index] = cards.get(index, 0) + units
    except (ValueError, AttributeError):
        return NO_CARDS
    return MappingProxyType(cards)


@lru_cache(_KEPT)
def _parse_card(card: str, units: str) -> Mapping[int, int]:
    index, amount = parse_count(card), parse_count(units)
    return NO_CARDS if index is None or amount is None else MappingProxyType({index: amount})


def parse_count(text: str) -> int | None:
    """A whole number of at most `MAX_DIGITS` ASCII digits; None for anything else."""
    return int(text) if len(text) <= MAX_DIGITS and text.isascii() and text.isdigit() else None
