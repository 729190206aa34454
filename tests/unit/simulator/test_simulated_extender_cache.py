"""What the simulated extender remembers, as the open-source one (c0b6141), faults included."""

from collections.abc import Mapping

import pytest

from devcluster import names
from devcluster.simulator.cards import NO_CARD
from devcluster.simulator.extendercache import ExtenderCache, NodeInfo
from devcluster.simulator.objects import Container, Node, Pod


class Cluster:
    """One node, whose extender is asked."""

    def __init__(self, cards: int = 2) -> None:
        capacity = {names.GPU_COUNT: str(cards), names.GPU_MEM: str(cards * 15)}
        self.node: Node | None = Node("n1", capacity=capacity)
        self.unhealthy: str | None = None
        self.cache = ExtenderCache(lambda name: self.node, lambda name: self.unhealthy, ())

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


def asking(units: int, annotations: Mapping[str, str] | None = None) -> Pod:
    containers = (Container("main", {names.GPU_MEM: units}),)
    return Pod("uid", "p", node="n1", containers=containers, annotations=annotations or {})


def held(card: str, units: int) -> Pod:
    return asking(units, {names.MEM_IDX: card, names.MEM_POD: str(units)})


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
