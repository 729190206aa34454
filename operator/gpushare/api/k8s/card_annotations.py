"""Parses the scheduler's ledger of GPU memory: the cards of a pod, in its annotations.

Anybody who may write pods can write these annotations, so they may be malformed.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import orjson

from gpushare import names

MAX_TEXT = 4096
"""Limit of an entry in characters, three times that of ten containers on sixteen cards."""
MAX_DIGITS = 8
"""Limit of the digits of a count or an amount; a card of a tebibyte has seven in MiB."""
_MAX_NUMBER_DIGITS = 18
"""Limit of digits of a number that fits into 64 bits."""
_KEPT = 1024

NO_CARDS: Mapping[int, int] = MappingProxyType({})


def parse_ledger(annotations: Mapping[str, str], memory: int, limit: int) -> Mapping[int, int]:
    """Return units of GPU memory by card index; empty where no entry can be parsed.

    The Professional scheduler's entry, `{container: {card: units}}`, counts unless it exceeds
    `limit`, the sum of the limits of all containers, init containers included. Otherwise the entry
    of the Basic and open-source schedulers counts: one card, with all of `memory`, the sum without
    init containers. The scheduler extender's own amount on the pod is not read, since the extender
    reads it only when it restarts. Never raises. Equal entries are one object.
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
        for units_by_card in orjson.loads(text).values():
            for card, units in units_by_card.items():
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
    """Parse a whole number as Go's `strconv.Atoi` does, also with a sign; None for other text."""
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not (digits.isascii() and digits.isdigit()):
        return None
    digits = digits.lstrip("0") or "0"
    return int(sign + digits) if len(digits) <= _MAX_NUMBER_DIGITS else None


def parse_count(text: str) -> int | None:
    """Parse a whole number of at most `MAX_DIGITS` ASCII digits; None for anything else."""
    return int(text) if len(text) <= MAX_DIGITS and text.isascii() and text.isdigit() else None
