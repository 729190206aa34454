"""Which cards are unhealthy, by the ConfigMap that the scheduler extender reads."""

import pytest

from gpushare.api.k8s.node import MAX_UNHEALTHY_TEXT, UnhealthyCards, parse_unhealthy_cards
from gpushare.api.pruned.cluster import Kind, keep_object
from tests.kit.values.manifests import Json


def build_report(node: str, **data: str) -> Json:
    return {"metadata": {"name": f"unhealthy-gpu-{node}", "uid": "c"}, "data": data}


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("1", {1}),
        ("0,2", {0, 2}),
        ("+1,2", {1, 2}),
        # What the extender can't read stands for card 0.
        ("1, 2", {1, 0}),
        ("", {0}),
        ("GPU-1", {0}),
    ],
)
def test_the_cards_are_read_as_the_extender_reads_them(text: str, cards: set[int]) -> None:
    said = parse_unhealthy_cards(build_report("n1", gpus=text))
    assert said == UnhealthyCards("n1", frozenset(cards))


def test_without_the_key_no_card_is_unhealthy() -> None:
    assert parse_unhealthy_cards(build_report("n1", other="1")) == UnhealthyCards("n1", frozenset())
    bare = {"metadata": {"name": "unhealthy-gpu-n1"}}
    assert parse_unhealthy_cards(bare) == UnhealthyCards("n1", frozenset())


def test_another_config_map_says_nothing_and_is_not_kept() -> None:
    other = {"metadata": {"name": "coredns", "uid": "c"}, "data": {"gpus": "1"}}
    assert parse_unhealthy_cards(other) is None
    assert keep_object(Kind.CONFIGMAPS, other) is None
    kept = keep_object(Kind.CONFIGMAPS, build_report("n1", gpus="1", secret="x"))
    assert kept is not None
    assert kept["data"] == {"gpus": "1"}


def test_a_text_without_end_costs_little() -> None:
    said = parse_unhealthy_cards(build_report("n1", gpus="1," * 10**6))
    assert said is not None
    assert len(said.cards) <= MAX_UNHEALTHY_TEXT
