"""The operator is killed at each write of a move of an idle node to a pool where a pod waits."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from tests.chaos.crash import Crash, Side, Write
from tests.chaos.crash_runs import CrashRuns
from tests.chaos.watching import Watching
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect_offered, expect_pool_ready, expect_running
from tests.kit.cluster.fault_proxy import FaultProxy
from tests.kit.cluster.sharing_pools import place_pod
from tests.kit.values.manifests import build_pod, build_pool

POOL = "gpushare.io/pool"
MOVED = "n2"
STEPS = (
    ("nodes", "PATCH", "Cordoned"),
    ("nodes", "PATCH", "Labelled"),
    ("nodes", "PATCH", "Restarting"),
    ("pods", "DELETE", "Restarting"),
    ("nodes", "PATCH", ""),
)
WRITES = tuple(Write(MOVED, *step) for step in STEPS)
CRASHES = [Crash(*moment) for moment in product(WRITES, Side)]


def build_elastic(name: str, **more: Any) -> dict[str, Any]:
    """Build a pool of all nodes, to and from which idle ones move within seconds."""
    demand = {"mode": "Automatic", "pendingFor": "2s", "idleFor": "2s"}
    pool = build_pool(name, demand=demand, **more)
    pool["spec"]["nodes"]["size"] = {"min": 1, "max": 2}
    return pool


class Move(CrashRuns):
    """A pool whose only node is full, and another with two, of which the idle one moves."""

    def _set_up(self) -> None:
        self.bench.add_nodes("n1", labels={"ack.node.gpu.schedule": "cgpu"})
        self.bench.create_pool(build_elastic("training", schedule="cgpu"))
        expect_pool_ready(self.bench, nodes=1)
        expect_running(self.bench, place_pod(self.bench, "busy", "n1", gib=15))
        self.bench.create_pool(build_elastic("serving"))
        self.bench.change_pool(nodes={"size": {"min": 1, "max": 1}})
        self.bench.add_nodes(MOVED, "n3", labels={"ack.node.gpu.schedule": "share"})
        expect_pool_ready(self.bench, "serving", nodes=2)
        for node in (MOVED, "n3"):
            expect_offered(self.bench, node)
        expect_running(self.bench, place_pod(self.bench, "served", "n3", pool="serving"))
        self.bench.change_pool(nodes={"size": {"min": 1, "max": 2}})
        plugins = self.bench.plugins().items()
        self.plugins = {pod["metadata"]["name"]: node for node, pod in plugins}

    def _change(self) -> None:
        waiting = build_pod("waiting", gib=8, selects={POOL: "training"})
        self.bench.create_pod(waiting)
        self._expect(
            "the pod that waited runs",
            lambda: self.bench.pod("waiting")["status"].get("phase") == "Running",
        )


@pytest.fixture(scope="module")
def move(installed: Bench) -> Iterator[Move]:
    installed.install("Professional")
    with FaultProxy(installed.cluster) as proxy, Watching(installed, budget=1) as watching:
        try:
            yield Move(installed, proxy, watching)
        finally:
            installed.clear()


def test_an_undisturbed_move_writes_to_one_node_five_times(move: Move) -> None:
    move.run()
    ours = [write for write in move.read_writes() if write.name != "training"]
    assert set(ours) == set(WRITES)


@pytest.mark.chaos
@pytest.mark.parametrize("crash", CRASHES, ids=str)
def test_killed_at_a_write_of_a_move_and_started_again_the_node_is_moved(
    move: Move, crash: Crash
) -> None:
    move.run(crash)
    assert move.bench.node(MOVED)["metadata"]["labels"][POOL] == "training"
    assert move.bench.node("n3")["metadata"]["labels"][POOL] == "serving"
    assert move.restarts[MOVED] == 1
    move.watching.expect_clean()
