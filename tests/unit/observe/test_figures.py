"""The figures of pools, applications and cards as nodes and pods change."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_owner import Workload
from gpushare.api.k8s.taint import Taint
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.node import Timing
from gpushare.observe.metrics.figures import Figures
from gpushare.observe.metrics.pools import Sight
from tests.kit.values.metrics import a_holder, a_member, a_waiting, build_sight, measure, read_all
from tests.kit.values.objects import NOW, a_pool, a_snapshot

SHARED = a_pool(schedule="share")
TAINT = Taint("team")
ZOO = a_pool("zoo", "share", nodes={"names": ["odd", "even-1", "even-2"]}, priority=900)


class Cluster:
    """Two pools whose nodes and pods change at random, and the figures that are told of it."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._planner = Planner(Timing())
        self._figures = Figures()

    def change(self) -> None:
        """Something happens to a node, or to a pod."""
        chance, changed = self._chance, set()
        name = chance.choice(("odd", "even-1", "even-2", "gpu-1", "gpu-2"))
        if chance.random() < 0.5:
            changed.add(name)
            self._nodes.pop(name, None)
            if chance.random() < 0.8:
                gib, group = chance.choice((0, 15, 15_360)), chance.choice(("a100", "other"))
                node = a_member(name, cards=chance.choice((1, 2)), gib=gib)
                taints = chance.choice(((), (), (TAINT,)))
                labels = {**node.labels, "group": group}
                self._nodes[name] = replace(node, labels=labels, taints=taints)
        else:
            key = f"web-{chance.randrange(6)}"
            old = self._pods.pop(key, None)
            new = None
            if chance.random() < 0.8:
                workload = Workload("Deployment", chance.choice(("web", "batch")))
                gib, pool = chance.choice((2, 9, 10**10)), chance.choice(("training", "nowhere"))
                gates, lacks_gpu = chance.choice(((), ("quota",))), chance.choice((None, False))
                created = NOW - chance.choice((timedelta(), timedelta(days=1)))
                new = replace(
                    a_waiting(key, gib, pool), gates=gates, lacks_gpu=lacks_gpu, created=created
                )
                if chance.random() < 0.7:
                    cards = {chance.randrange(3): chance.choice((2, 9))}
                    new = a_holder(key, cards, node=name, workload=workload)
                self._pods[key] = new
            self._figures.put_pod(key, old, new)
            changed |= {pod.node for pod in (old, new) if pod is not None and pod.node}
        nodes, pods = tuple(self._nodes.values()), tuple(self._pods.values())
        snapshot = a_snapshot(pools=(SHARED, ZOO), nodes=nodes, pods=pods)
        self._planner.update(snapshot, changed, NOW)
        self._figures.put_nodes(snapshot.pools, self._planner.plans_by_pool, self._planner.seen)

    def write_kept(self) -> str:
        """What the figures say now."""
        sight = Sight((SHARED, ZOO), self._planner.plans_by_pool, figures=self._figures, now=NOW)
        return write(sight)

    def write_anew(self) -> str:
        """What they would say if they had been told of nothing before."""
        return write(build_sight([SHARED, ZOO], self._nodes.values(), self._pods.values()))


def write(sight: Sight) -> str:
    lines = measure(sight).generate().decode().splitlines()
    ours = ("gpushare_pool", "gpushare_application", "gpushare_card", "gpushare_node_info")
    return "\n".join(sorted(line for line in lines if line.startswith(ours)))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_up_to_date_is_what_is_worked_out_anew(seed: int) -> None:
    cluster = Cluster(Random(seed))
    for _ in range(40):
        cluster.change()
        assert cluster.write_kept() == cluster.write_anew()


def test_a_node_whose_pool_is_gone_is_counted_in_none() -> None:
    planner, figures = Planner(Timing()), Figures()
    for pools in ((SHARED,), ()):
        planner.update(a_snapshot(pools=pools, nodes=(a_member(),)), None, NOW)
        figures.put_nodes(pools, planner.plans_by_pool, planner.seen)
    assert figures.pools == {}
    assert read_all(measure(Sight(figures=figures)), "node_info") == {}
