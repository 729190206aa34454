"""What the simulated extender remembers, as the open-source one (c0b6141), faults included."""

from dataclasses import replace

import pytest

from devcluster import names
from devcluster.simulator.cards import NO_CARD
from devcluster.simulator.extendercache import ExtenderCache, NodeInfo
from devcluster.simulator.objects import Container, Node, Pod


class Cluster:
    """One node, whose extender is asked."""

    def __init__(self, *, cards: int = 2, gib: int = 15) -> None:
        self.node: Node | None = None
        self.unhealthy: str | None = None
        self.set_cards(cards, gib)
        self.restart()

    def set_cards(self, cards: int, gib: int = 15) -> None:
        capacity = {names.GPU_COUNT: str(cards), names.GPU_MEM: str(cards * gib)}
        self.node = Node("n1", capacity=capacity)

    def restart(self, *pods: Pod) -> None:
        self.cache = ExtenderCache(lambda name: self.node, lambda name: self.unhealthy, pods)

    @property
    def info(self) -> NodeInfo:
        info = self.cache.find("n1")
        assert info is not None
        return info

    def choose(self, units: int) -> int | str:
        return self.cache.choose(asking(units), self.info)

    @property
    def used(self) -> list[int]:
        return [device.used for device in self.info.devices]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def asking(units: int, **fields: object) -> Pod:
    limits = {names.GPU_MEM: units} if units else {}
    pod = Pod("uid", "p", node="n1", containers=(Container("main", limits),))
    return replace(pod, **fields)  # type: ignore[arg-type]


def held(card: str, units: int, uid: str = "uid") -> Pod:
    notes = {names.MEM_IDX: card, names.MEM_POD: str(units)}
    return asking(units, uid=uid, annotations=notes)


def test_cards_that_are_added_are_not_seen_before_it_restarts(cluster: Cluster) -> None:
    cluster.cache.take(None, held("0", 10))
    cluster.set_cards(4)
    cluster.cache.take(None, held("1", 10, "other"))
    assert cluster.choose(6) == NO_CARD
    cluster.restart(held("0", 10), held("1", 10, "other"))
    assert cluster.choose(6) == 2


def test_cards_that_are_gone_are_given_out_before_it_restarts() -> None:
    cluster = Cluster(cards=4)
    assert len(cluster.used) == 4
    cluster.set_cards(2)
    for card, uid in (("0", "a"), ("1", "b")):
        cluster.cache.take(None, held(card, 15, uid))
    assert cluster.choose(6) == 2


def test_units_of_a_pod_whose_annotations_were_edited_are_never_taken_back(
    cluster: Cluster,
) -> None:
    before, after = held("0", 8), held("1", 3)
    cluster.cache.take(None, before)
    cluster.cache.take(before, after)
    cluster.cache.take(after, None)
    assert cluster.used == [8, 0]
    cluster.restart()
    assert cluster.used == [0, 0]


@pytest.mark.parametrize(("card", "used"), [("+1", [0, 3]), ("7", [0, 0]), (" 1", [0, 0])])
def test_a_card_is_read_as_go_reads_a_number(cluster: Cluster, card: str, used: list[int]) -> None:
    cluster.cache.take(None, held(card, 3))
    assert cluster.used == used


def test_a_pod_that_is_being_deleted_holds_nothing(cluster: Cluster) -> None:
    pod = held("0", 8)
    cluster.cache.take(None, pod)
    cluster.cache.take(pod, replace(pod, terminating=True))
    assert cluster.used == [0, 0]


def test_a_card_that_is_given_out_twice_has_almost_infinitely_much_free() -> None:
    cluster = Cluster(cards=1)
    cluster.cache.take(None, held("0", 18))
    assert cluster.choose(15) == 0


@pytest.mark.parametrize(
    ("gpus", "card"), [("0", 1), ("1", 0), ("0,1", NO_CARD), ("x", 1), ("", 1), (None, 0)]
)
def test_unhealthy_cards_are_those_of_the_config_map(
    cluster: Cluster, gpus: str | None, card: int | str
) -> None:
    cluster.unhealthy = gpus
    assert cluster.choose(15) == card


def test_a_node_that_is_gone_is_remembered_and_a_pod_that_came_first_is_counted_later(
    cluster: Cluster,
) -> None:
    node, cluster.node = cluster.node, None
    cluster.cache.take(None, held("0", 8))
    assert cluster.cache.find("n1") is None
    cluster.node = node
    cluster.cache.catch_up()
    assert cluster.used == [8, 0]
    cluster.node = None
    assert list(cluster.cache.nodes) == ["n1"]
