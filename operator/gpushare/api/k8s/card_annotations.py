"""The scheduler's ledger of GPU memory: the cards that a pod holds, by its annotations.

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
"""Of a count or an amount; a card of a tebibyte, counted in MiB, has seven."""
_MAX_NUMBER_DIGITS = 18
"""With more a number may not fit into 64 bits."""
_KEPT = 1024

NO_CARDS: Mapping[int, int] = MappingProxyType({})


def parse_ledger(annotations: Mapping[str, str], memory: int, limit: int) -> Mapping[int, int]:
    """Return units of GPU memory by card index; empty where no entry can be parsed.

    The Professional scheduler's entry, `{container: {card: units}}`, goes first, unless it gives
    more than `limit`: what the pod's containers, init containers included, may have together. Else
    the older one of the Basic and open-source schedulers: one card, which holds all of `memory`,
    the limits of the containers alone. The scheduler extender wrote that amount on the pod as well,
    and does not look at it again before it restarts. Never raises. Equal entries are one object,
    kept once.
    """
    allocation = annotations.get(names.ANNOTATION_ALLOCATION, "")
    cards = _parse_allocation(allocation) if 0 < len(allocation) <= MAX_TEXT else NO_CARDS
    if cards and sum(cards.values()) <= limit:
        return cards
    card = parse_number(annotations.get(names.ANNOTATION_CARD, ""))
    return NO_CARDS if card is None or card < 0 or not memory else _hold(card, memory)


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
def _hold(card: int, units: int) -> Mapping[int, int]:
    return MappingProxyType({card: units})


def parse_number(text: str) -> int | None:
    """Parse a whole number as Go's `strconv.Atoi` does, with or without a sign; None for others."""
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not (digits.isascii() and digits.isdigit()):
        return None
    digits = digits.lstrip("0") or "0"
    return int(sign + digits) if len(digits) <= _MAX_NUMBER_DIGITS else None


def parse_count(text: str) -> int | None:
    """Parse a whole number of at most `MAX_DIGITS` ASCII digits; None for anything else."""
    return int(text) if len(text) <= MAX_DIGITS and text.isascii() and text.isdigit() else None
