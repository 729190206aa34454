"""The layout of `kubectl inspect gpushare`, to the byte: outputs that guides and issues show."""

import pytest

from gpushare.analysis.inspect.cards import InspectedNode, count_percent, observe_card_nodes
from gpushare.analysis.inspect.layout import format_details, format_summary
from tests.kit.values.manifests import Json, build_bound_pod, build_node


def lines(*shown: str) -> str:
    """Text whose blanks at the end of a line are shown as dots."""
    return "".join(f"{line.replace('·', ' ')}\n" for line in shown)


def observe(*objects: Json, only: str = "") -> tuple[InspectedNode, ...]:
    nodes = [each for each in objects if "containers" not in each.get("spec", {})]
    pods = [each for each in objects if "containers" in each.get("spec", {})]
    return observe_card_nodes(nodes, pods, only)


def test_no_node_that_shares() -> None:
    assert format_summary(observe(build_node("n1", gpus=1, total=None))) == lines(
        "NAME  IPADDRESS  GPU Memory()",
        "",
        "Allocated/Total GPU Memory In Cluster:",
        "0/0 (0%)··",
    )
    assert format_details(()) == lines("", "", "Allocated/Total GPU Memory In Cluster:  0/0 (0%)··")


@pytest.fixture
def mixed() -> tuple[InspectedNode, ...]:
    """Both entries, none, and one that names a card which is not there."""
    return observe(
        build_node("n2", gpus=2, total=30, address="10.0.0.2"),
        build_node("n1", gpus=1, total=15, address="10.0.0.1"),
        build_bound_pod("two", "n2", 8, allocation={"0": {"0": 4, "1": 4}}),
        build_bound_pod("idx1", "n2", 3, card="1"),
        build_bound_pod("pend", "n1", 2),
        build_bound_pod("stale", "n1", 5, card="7"),
    )


def test_nodes_with_unlike_cards_and_entries(mixed: tuple[InspectedNode, ...]) -> None:
    n1, n2 = mixed
    assert [node.name for node in mixed] == ["n1", "n2"]

    assert format_summary((n2, n1)) == lines(
        "NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  PENDING(Allocated)  "
        "GPU Memory(GiB)",
        "n2    10.0.0.2   4/15                   7/15                                       11/30",
        "n1    10.0.0.1   0/15                   0/0                    2                   2/15",
        "-" * 49,
        "Allocated/Total GPU Memory In Cluster:",
        "13/45 (28%)··",
    )


def test_details_count_the_cards_that_the_summary_does_not_show(
    mixed: tuple[InspectedNode, ...],
) -> None:
    n1, n2 = mixed

    assert format_details((n2, n1)) == lines(
        "",
        "NAME:       n2",
        "IPADDRESS:  10.0.0.2",
        "",
        "NAME         NAMESPACE  GPU0(Allocated)  GPU1(Allocated)··",
        "two          default    4                4················",
        "idx1         default    0                3················",
        "Allocated :  11 (36%)···",
        "Total :      30·········",
        "-" * 45,
        "",
        "NAME:       n1",
        "IPADDRESS:  10.0.0.1",
        "",
        "NAME         NAMESPACE  GPU0(Allocated)  Pending(Allocated)··",
        "stale        default    0                0···················",
        "pend         default    0                2···················",
        "Allocated :  7 (46%)····",
        "Total :      15·········",
        "-" * 45,
        "",
        "",
        "Allocated/Total GPU Memory In Cluster:  18/45 (40%)··",
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_ended_hold_nothing(phase: str) -> None:
    (node,) = observe(
        build_node("n1", gpus=1, total=15),
        build_bound_pod("ended", "n1", 4, card="0", phase=phase),
    )
    assert node.used == {0: 0}


@pytest.mark.parametrize(
    "allocation",
    [
        *("", "{}", "null", "[]", "no json", '{"0": 4}', '{"0": null}', '{"x": {"0": 4}}'),
        *('{"0": {"0": 4.5}}', '{"0": {"0": true}}', '{"0": {"x": 4}}'),
        '{"0": [], "1": {"0": 4}}',
    ],
)
def test_an_entry_that_is_none_leaves_the_older_one(allocation: str) -> None:
    (node,) = observe(
        build_node("n1", gpus=2, total=30),
        build_bound_pod("pod", "n1", 4, card="1", allocation=allocation),
    )
    assert node.used == {0: 0, 1: 4}


@pytest.mark.parametrize("card", ["", "x", "1.0", " 1", "1_0", "٣", "-1"])
def test_a_card_that_is_no_number_is_none(card: str) -> None:
    (node,) = observe(
        build_node("n1", gpus=2, total=30), build_bound_pod("pod", "n1", 4, card=card)
    )
    assert node.used == {0: 0, 1: 0, -1: 4}


@pytest.mark.parametrize(("card_total", "unit"), [(100, "GiB"), (101, "MiB")])
def test_the_unit_is_told_by_the_first_nodes_cards(card_total: int, unit: str) -> None:
    nodes = observe(
        build_node("n0", gpus=0, total=7),
        build_node("n1", gpus=2, total=2 * card_total),
        build_node("n2", gpus=1, total=15),
    )
    assert f"GPU Memory({unit})\n" in format_summary(nodes)


def test_percentages_are_rounded_as_floats_round_them() -> None:
    assert (count_percent(29, 100), count_percent(1, 3), count_percent(3, 0)) == (28, 33, 0)


def test_a_card_one_beyond_the_last_shows_in_the_column_of_those_without() -> None:
    nodes = observe(
        build_node("n1", gpus=1, total=15),
        build_bound_pod("beyond", "n1", 4, card="1"),
        build_bound_pod("waits", "n1", 2),
    )
    rows = format_details(nodes).splitlines()
    assert "beyond       default    0                4                   " in rows


def test_entries_name_cards_that_a_node_has_not_and_leave_others_empty() -> None:
    nodes = observe(
        build_node("n0", gpus=0, total=7),
        build_bound_pod("lost", "n0", 3, card="0"),
        build_node("n1", gpus=2, total=30),
        build_bound_pod("one", "n1", 4, allocation={"0": {"1": 4}}),
    )
    assert "n0    unknown    3/0 " in format_summary(nodes)
    assert "one          default    0                4 " in format_details(nodes)
