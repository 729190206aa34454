"""Which pods would have to move so that one more gets a card."""

from typing import Any

from gpushare import names
from gpushare.analysis.placement.free import Freed, find_moves
from gpushare.analysis.placement.what_if import Observed, read_shapes
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import parse_pod
from gpushare.settings import Settings
from tests.kit.values.manifests import Json, build_pod
from tests.kit.values.objects import NOW, a_pool, a_snapshot
from tests.kit.values.placements import HERE, a_member

POOL = a_pool()


def _build_running(name: str, node: str, card: int, gib: int, *, owner: str = "ReplicaSet") -> Json:
    raw = build_pod(name, gib=gib, selects={names.LABEL_POOL: "training"}, owner=owner)
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


def _find(*pods: Json, cards: int = 1, nodes: int = 2, units: int = 12) -> Any:
    members = tuple(a_member(f"n{number}", POOL, cards=cards) for number in range(nodes))
    return find_moves(_observe(*pods, nodes=members), "training", units)


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
