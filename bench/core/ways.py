"""Changes every node of a pool from share to cgpu, by the operator or by the vendor's guide."""

import time
from collections.abc import Callable, Mapping, Sequence

from devcluster import names
from tests.kit.bench import POOL, Bench
from tests.kit.cluster.expect import expect, expect_offered, expect_pool_ready
from tests.kit.cluster.operator_processes import wait_ready
from tests.kit.cluster.replicas import is_ready
from tests.kit.cluster.sharing_pools import expect_each_restarted_once, plugin_names
from tests.kit.values.manifests import build_pool

_CARDS = 4
_CARD_GIB = 15
PACE: Mapping[str, float] = {
    "report_period_seconds": 10,
    "start_delay_seconds": 3,
    "resource_delay_seconds": 0.5,
    "bind_delay_seconds": 0.1,
    "kubelet_delay_seconds": 0.2,
}
"""Speed of the nodes, by keys of the simulator's fault annotation, equal for both ways."""
SHARE = {names.CGPU: "true", names.DISABLE_ISOLATION: "true"}
_BACK_SECONDS = 60
_FLIPPED_SECONDS = 1800

Flip = Callable[[], float]
"""Changes the nodes to cgpu; returns the seconds."""


def prepare_operator(place: Bench, nodes: Sequence[str]) -> Flip:
    """Create a pool in mode share; the flip is an edit of `schedule`, until the pool is Ready."""
    _add_nodes(place, nodes)
    wait_ready(place.operators.installation.start("controller", identity="measured"))
    place.create_pool(build_pool(edition="Basic"))
    expect_pool_ready(place, nodes=len(nodes))

    def flip() -> float:
        before, mark = plugin_names(place), place.audit.mark()
        started = time.monotonic()
        place.change_pool(schedule="cgpu")
        expect_pool_ready(place, nodes=len(nodes), within=_FLIPPED_SECONDS)
        seconds = time.monotonic() - started
        expect_each_restarted_once(place, before, mark)
        return seconds

    return flip


def prepare_hand(place: Bench, nodes: Sequence[str]) -> Flip:
    """Create nodes in mode share without the operator; the flip goes node after node.

    Source: the vendor's guide on managing GPU sharing by node pools.
    """
    _add_nodes(place, nodes)
    for node in nodes:
        place.label(node, {POOL: "training"})

    def flip() -> float:
        started = time.monotonic()
        for node in nodes:
            _flip_by_hand(place, node)
        return time.monotonic() - started

    return flip


WAYS = {"operator": prepare_operator, "hand": prepare_hand}


def _flip_by_hand(place: Bench, node: str) -> None:
    plugin = place.plugins()[node]["metadata"]
    kubectl = place.cluster.kubectl
    kubectl("label", "node", node, f"{names.DISABLE_ISOLATION}=false", "--overwrite")
    kubectl("delete", "po", plugin["name"], "-n", names.SYSTEM_NAMESPACE)

    def is_back() -> bool:
        pod = place.plugins().get(node)
        if pod is None or pod["metadata"]["uid"] == plugin["uid"]:
            return False
        return is_ready(pod)

    expect(place, f"the plugin of {node} is back", is_back, within_seconds=_BACK_SECONDS)


def _add_nodes(place: Bench, nodes: Sequence[str]) -> None:
    """Add nodes that share their cards, and wait until they offer their memory."""
    place.install("Basic")
    place.add_nodes(*nodes, cards=_CARDS, labels=SHARE, faults=PACE)
    for node in nodes:
        expect_offered(place, node, _CARDS * _CARD_GIB)
