"""Two ways from share to cgpu on every node of a pool: the operator's, and the vendor's guide's."""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from devcluster import names
from devcluster.installation import OperatorProcess
from tests.kit.arrange import POOL, expect_each_restarted_once, plugin_names
from tests.kit.bench import Bench
from tests.kit.builders import build_pool
from tests.kit.expect import expect, expect_gpu_memory, expect_pool_ready
from tests.kit.operator import wait_ready

CARDS = 4
_CARD_GIB = 15
PACE: Mapping[str, float] = {
    "report_period_seconds": 10,
    "start_delay_seconds": 3,
    "resource_delay_seconds": 0.5,
    "bind_delay_seconds": 0.1,
    "kubelet_delay_seconds": 0.2,
}
"""How fast the nodes are, by the keys of the simulator's fault annotation; the same both ways."""
_SHARE = {names.CGPU: "true", names.DISABLE_ISOLATION: "true"}
_BACK_SECONDS = 60
_FLIPPED_SECONDS = 1800


class Way(Protocol):
    """One way to flip; of one round only."""

    def prepare(self) -> None:
        """Bring the nodes into the pool, in the mode share."""

    def flip(self) -> float:
        """Bring them to cgpu; seconds that it took."""


class ByOperator:
    """The pool's `schedule` is edited; the controller runs with an installation's settings."""

    def __init__(self, bench: Bench, nodes: Sequence[str]) -> None:
        self._bench, self._nodes = bench, nodes
        self._process: OperatorProcess | None = None

    def prepare(self) -> None:
        """The nodes, the controller, and a pool that is Ready on all of them."""
        _add_nodes(self._bench, self._nodes)
        installation = self._bench.operators.installation
        self._process = installation.start("controller", identity="measured")
        wait_ready(self._process)
        self._bench.create_pool(build_pool(edition="Basic"))
        expect_pool_ready(self._bench, nodes=len(self._nodes))

    def flip(self) -> float:
        """From the edit until the pool is Ready; each plugin was restarted once."""
        before, mark = plugin_names(self._bench), self._bench.audit.mark()
        started = time.monotonic()
        self._bench.change_pool(schedule="cgpu")
        expect_pool_ready(self._bench, nodes=len(self._nodes), within=_FLIPPED_SECONDS)
        seconds = time.monotonic() - started
        expect_each_restarted_once(self._bench, before, mark)
        return seconds

    def trace(self, node: str) -> Sequence[str]:
        """The controller's log of the node."""
        assert self._process is not None
        with self._process.log.open() as log:
            return [line.rstrip() for line in log if f'"node":"{node}"' in line]


class ByHand:
    """Node after node: label it, delete its plugin's pod, wait until another is Ready.

    Source: the vendor's guide on managing GPU sharing by node pools, which says no more.
    """

    def __init__(self, bench: Bench, nodes: Sequence[str]) -> None:
        self._bench, self._nodes = bench, nodes

    def prepare(self) -> None:
        """The nodes, with the pool's label, and no operator."""
        _add_nodes(self._bench, self._nodes)
        for node in self._nodes:
            self._bench.label(node, {POOL: "training"})

    def flip(self) -> float:
        """From the first label until the last plugin is Ready."""
        started = time.monotonic()
        for node in self._nodes:
            self._flip_node(node)
        return time.monotonic() - started

    def _flip_node(self, node: str) -> None:
        plugin = self._bench.plugins()[node]["metadata"]
        label = f"{names.DISABLE_ISOLATION}=false"
        kubectl = self._bench.cluster.kubectl
        kubectl("label", "node", node, label, "--overwrite")
        kubectl("delete", "po", plugin["name"], "-n", names.SYSTEM_NAMESPACE)

        def is_back() -> bool:
            pod = self._bench.plugins().get(node)
            return (
                pod is not None
                and pod["metadata"]["uid"] != plugin["uid"]
                and any(
                    condition["type"] == "Ready" and condition["status"] == "True"
                    for condition in pod["status"].get("conditions", ())
                )
            )

        expect(self._bench, f"the plugin of {node} is back", is_back, within_seconds=_BACK_SECONDS)


def _add_nodes(bench: Bench, nodes: Sequence[str]) -> None:
    """Nodes that share their cards, and offer their memory."""
    bench.install("Basic")
    bench.add_nodes(*nodes, cards=CARDS, labels=_SHARE, faults=PACE)
    for node in nodes:
        expect_gpu_memory(bench, node, CARDS * _CARD_GIB)
