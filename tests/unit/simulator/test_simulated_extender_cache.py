"""What the simulated extender remembers, as the open-source one (c0b6141), faults included."""

from devcluster import names
from devcluster.simulator.extendercache import ExtenderCache, NodeInfo
from devcluster.simulator.objects import Container, Node, Pod

NODE = Node("n1", capacity={names.GPU_COUNT: "1", names.GPU_MEM: "15"})


def asking(units: int, **annotations: str) -> Pod:
    containers = (Container("main", {names.GPU_MEM: units}),)
    return Pod("uid", "p", node="n1", containers=containers, annotations=annotations)


def test_a_card_that_is_given_out_twice_has_almost_infinitely_much_free() -> None:
    cache = ExtenderCache(lambda name: NODE, lambda name: None)
    cache.take(None, asking(18, **{names.MEM_IDX: "0", names.MEM_POD: "18"}))
    assert cache.choose(asking(15), cache.nodes["n1"]) == 0


def test_a_node_that_is_gone_is_still_listed() -> None:
    there = {"n1": NODE}
    cache = ExtenderCache(there.get, lambda name: None)
    assert isinstance(cache.find("n1"), NodeInfo)
    there.clear()
    assert cache.find("n1") is None
    assert list(cache.nodes) == ["n1"]
