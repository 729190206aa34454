"""The unhealthy cards of a node, which a ConfigMap tells the scheduler extender."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpushare import names
from gpushare.api.k8s.card_annotations import parse_number

MAX_TEXT = 8192
"""The indexes of a thousand cards are half of this."""


@dataclass(frozen=True, slots=True)
class UnhealthyCards:
    """The unhealthy cards of one node."""

    node: str
    cards: frozenset[int]


def parse_unhealthy_cards(raw: Mapping[str, Any]) -> UnhealthyCards | None:
    """Parse the ConfigMap of a node's unhealthy cards; None for any other ConfigMap.

    Read as the extender reads it: an index that is no number, such as ` 1` after a comma and a
    blank, stands for card 0 (`getUnhealthyGPUs`, pkg/cache/nodeinfo.go of
    AliyunContainerService/gpushare-scheduler-extender).
    """
    name = raw["metadata"]["name"]
    if not name.startswith(names.UNHEALTHY_PREFIX):
        return None
    text = (raw.get("data") or {}).get(names.UNHEALTHY_KEY)
    cards = (parse_number(each) for each in text[:MAX_TEXT].split(",")) if text is not None else ()
    return UnhealthyCards(
        name.removeprefix(names.UNHEALTHY_PREFIX), frozenset(card or 0 for card in cards)
    )
