"""Which pods would have to move so that one more gets a card."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.placement.disruption_budget import DisruptionBudget, parse_disruption_budget
from gpushare.analysis.placement.free import Freed, find_moves
from gpushare.analysis.placement.place import place_pods
from gpushare.analysis.placement.what_if import Observed, queue_running, read_shapes
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import parse_pod
from gpushare.settings import Settings
from tests.kit.values.manifests import Json, build_disruption_budget, build_pod
from tests.kit.values.objects import NOW, a_pool, a_snapshot
from tests.kit.values.placements import HERE, a_member, a_queued

POOL = a_pool()


def _build_running(
    name: str, node: str, card: int, gib: int, *, owner: str = "ReplicaSet", **more: Any
) -> Json:
    raw = build_pod(name, gib=gib, selects={names.LABEL_POOL: "training"}, owner=owner, **more)
    raw["metadata"] |= {"namespace": "default", "uid": name}
    for reference in raw["metadata"].get("ownerReferences", ()):
        reference["uid"] = "x"
    allocation = f'{{"main": {{"{card}": {gib}}}}}'
    raw["metadata"]["annotations"][names.ANNOTATION_ALLOCATION] = allocation
    raw["spec"]["nodeName"] = node
    return raw | {"status": {"phase": "Running"}}


def _observe(*pods: Json, nodes: tuple[Node, ...]) -> Observed:
    bound = tuple(pod for raw in pods if (pod := parse_pod(raw, plugin_namespaces=())))
    snapshot = a_snapshot(pools=(POOL,), nodes=nodes, pods=bound)
    return Observed(snapshot, read_shapes(pods), (), (HERE,), Settings(), NOW)


def _find(
    *pods: Json, nodes: int = 2, units: int = 12, budgets: Sequence[DisruptionBudget] = ()
) -> Any:
    members = tuple(a_member(f"n{number}", POOL) for number in range(nodes))
    return find_moves(_observe(*pods, nodes=members), "training", units, budgets)


def _budget(name: str = "budget", *, allowed: int = 0, **labels: str) -> DisruptionBudget:
    selector = {"matchLabels": labels}
    return parse_disruption_budget(
        build_disruption_budget(name, selector=selector, allowed=allowed)
    )


def _name(freed: Freed) -> list[tuple[str, str]]:
    return [(each.pod.name, each.node) for each in freed.moved]


def test_nothing_moves_where_the_pod_fits() -> None:
    assert _find(_build_running("a", "n0", 0, 8)).fits


def test_the_pods_with_the_fewest_units_move() -> None:
    answer = _find(
        _build_running("large", "n0", 0, 6), _build_running("small", "n1", 0, 4), units=12
    )
    assert _name(answer.freed) == [("small", "n0")]
    assert (answer.freed.node, answer.freed.units) == ("n1", 4)


def test_a_pod_without_a_controller_is_never_moved() -> None:
    answer = _find(
        _build_running("large", "n0", 0, 6), _build_running("small", "n1", 0, 4, owner="")
    )
    assert _name(answer.freed) == [("large", "n1")]


def test_no_pod_moves_that_would_not_run_again() -> None:
    full = [_build_running(f"p{number}", f"n{number}", 0, 9) for number in range(2)]
    answer = _find(*full)
    assert (answer.fits, answer.freed) == (False, None)


def test_several_pods_of_one_card_move_together() -> None:
    pods = [_build_running(f"p{number}", "n0", 0, 3) for number in range(2)]
    answer = _find(*pods, _build_running("other", "n1", 0, 9), units=15)
    assert sorted(_name(answer.freed)) == [("p0", "n1"), ("p1", "n1")]


SMALL, LARGE = (
    _build_running("small", "n1", 0, 4, labels={"app": "small"}),
    _build_running("large", "n0", 0, 6, labels={"app": "large"}),
)


def test_a_pod_whose_budget_allows_no_eviction_is_not_moved() -> None:
    answer = _find(SMALL, LARGE, budgets=[_budget(app="small")])
    assert _name(answer.freed) == [("large", "n1")]


def test_a_pod_whose_budget_allows_an_eviction_is_moved() -> None:
    answer = _find(SMALL, LARGE, budgets=[_budget(app="small", allowed=1)])
    assert _name(answer.freed) == [("small", "n0")]


def test_a_pod_of_two_budgets_is_never_moved() -> None:
    budgets = [_budget("one", app="small", allowed=9), _budget("two", allowed=9)]
    answer = _find(SMALL, LARGE, budgets=budgets)
    assert _name(answer.freed) == [("large", "n1")]


@pytest.mark.parametrize(("allowed", "moves"), [(1, False), (2, True)])
def test_pods_of_one_budget_that_move_together_count_together(allowed: int, moves: bool) -> None:
    pods = [_build_running(f"p{n}", "n0", 0, 3, labels={"app": "a"}) for n in range(2)]
    other = _build_running("other", "n1", 0, 9, owner="")
    answer = _find(*pods, other, units=15, budgets=[_budget(app="a", allowed=allowed)])
    assert (answer.freed is not None) is moves


def test_a_pod_that_has_not_started_needs_no_budget() -> None:
    starting = SMALL | {"status": {"phase": "Pending"}}
    answer = _find(starting, LARGE, budgets=[_budget(app="small")])
    assert _name(answer.freed) == [("small", "n0")]


def _draw(choice: random.Random) -> Observed:
    pods = []
    for card in range(4):
        left = choice.randint(4, 7)
        while left:
            units = choice.randint(1, min(left, 3))
            left -= units
            name, owner = f"p{card}-{left}", choice.choice(["", "ReplicaSet", "ReplicaSet"])
            pods.append(_build_running(name, f"n{card // 2}", card % 2, units, owner=owner))
    members = tuple(a_member(f"n{number}", POOL, cards=2, card=8) for number in range(2))
    return _observe(*pods, nodes=members)


def _find_by_force(seen: Observed, units: int) -> int | None:
    """The fewest units of up to four pods of a card without which one more is placed, and they."""
    running = queue_running(seen, seen.build_now())
    wanted = a_queued(gib=units, selects={names.LABEL_POOL: "training"})
    found = []
    for node, pods in seen.snapshot.pods.items():
        for number in range(1, 5):
            for moved in combinations([pod for pod in pods if pod.owner], number):
                rest = [pod for pod in pods if pod not in moved]
                snapshot = replace(seen.snapshot, pods={**seen.snapshot.pods, node: rest})
                cluster = replace(seen, snapshot=snapshot).build_now()
                queue = [wanted, *(running[pod.uid] for pod in moved)]
                is_one_card = len({card for pod in moved for card in pod.cards}) == 1
                if is_one_card and place_pods(cluster, queue).placed == len(queue):
                    found.append(sum(sum(pod.cards.values()) for pod in moved))
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(40))
def test_no_other_pods_of_a_card_free_it_by_fewer_units(seed: int) -> None:
    choice = random.Random(seed)
    seen, units = _draw(choice), choice.randint(4, 6)
    answer = find_moves(seen, "training", units)
    if not answer.fits:
        assert (answer.freed and answer.freed.units) == _find_by_force(seen, units)
