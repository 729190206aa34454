"""What a node in each mode of each edition looks like from outside, and tours through the modes.

Written down a second time, so that the operator's own tables can be found wrong.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from devcluster import names
from devcluster.editions import Edition
from tests.kit.bench import GPU_MEM, MODE, Bench, Json
from tests.kit.cluster.audit_log import Call
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_running,
    is_isolated,
)
from tests.kit.values.manifests import build_pod, build_pool

CORE, TOPOLOGY, WHOLE = "aliyun.com/gpu-core.percentage", "aliyun.com/gpu", "nvidia.com/gpu"
RESOURCES = (GPU_MEM, CORE, TOPOLOGY, WHOLE)
GPUSHARE = "gpushare-device-plugin-ds"
_MEMORY, _CARD = {GPU_MEM: 15}, {WHOLE: 1}


@dataclass(frozen=True)
class ExpectedMode:
    """A node with one card of 15 GiB, in one mode."""

    labels: dict[str, str]
    offers: dict[str, int]
    plugin: str = ""
    """Its DaemonSet; empty where a static pod or nobody serves the mode."""
    isolates: bool = False

    @property
    def asks(self) -> dict[str, int]:
        """The limits of a pod that belongs there."""
        return {resource: max(1, amount // 5) for resource, amount in self.offers.items()}


EXPECTED_MODES: dict[Edition, dict[str, ExpectedMode]] = {
    "Professional": {
        "default": ExpectedMode({MODE: "default"}, _CARD, "ack-nvidia-device-plugin"),
        "share": ExpectedMode({MODE: "share"}, _MEMORY, GPUSHARE),
        "cgpu": ExpectedMode({MODE: "cgpu"}, _MEMORY, GPUSHARE, isolates=True),
        "core_mem": ExpectedMode(
            {MODE: "core_mem"},
            {GPU_MEM: 15, CORE: 100},
            "gpushare-core-device-plugin-ds",
            isolates=True,
        ),
        "mps": ExpectedMode({MODE: "mps"}, _MEMORY, "gpushare-mps-device-plugin-ds", isolates=True),
        "topology": ExpectedMode({MODE: "topology"}, {TOPOLOGY: 1}, "gputopo-device-plugin-ds"),
        "disabled": ExpectedMode({MODE: "disabled"}, {}),
    },
    "Basic": {
        "default": ExpectedMode({"cgpu": "false"}, _CARD),
        "share": ExpectedMode(
            {"cgpu": "true", "cgpu.disable.isolation": "true"}, _MEMORY, GPUSHARE
        ),
        "cgpu": ExpectedMode(
            {"cgpu": "true", "cgpu.disable.isolation": "false"}, _MEMORY, GPUSHARE, isolates=True
        ),
    },
    "OpenSource": {
        "default": ExpectedMode({"gpushare": "false"}, _CARD),
        "share": ExpectedMode({"gpushare": "true"}, _MEMORY, GPUSHARE),
    },
}
RESTARTS: dict[Edition, set[tuple[str, str]]] = {
    "Professional": {("share", "cgpu")},
    "Basic": {("share", "cgpu"), ("cgpu", "share")},
    "OpenSource": set(),
}
"""Where the same plugin serves both modes, so that only a restart makes it read the labels."""


def take_tour(bench: Bench, edition: Edition, *tour: str) -> None:
    """One node goes through the modes of `tour`; each must work before the next one is wanted."""
    bench.install(edition)
    bench.add_nodes("n1", labels={MODE: "default"} if edition == "Professional" else {})
    bench.create_pool(build_pool(edition=edition, schedule=tour[0]))
    expect_mode(bench, edition, tour[0])
    for of, to in pairwise(tour):
        before = [
            pod["metadata"]["name"] for pod in read_plugins(bench, EXPECTED_MODES[edition][of])
        ]
        mark = bench.audit.mark()
        bench.change_again("n1", schedule=to)
        expect_mode(bench, edition, to)
        restarted = before if (of, to) in RESTARTS[edition] else []
        assert bench.audit.our_deletions(mark) == restarted, f"{of} -> {to}"


def read_plugins(bench: Bench, look: ExpectedMode) -> list[Json]:
    """The running pods of the mode's plugin."""
    return list(bench.plugins(look.plugin).values()) if look.plugin else []


def expect_mode(bench: Bench, edition: Edition, mode: str) -> None:
    """The pool is Ready, and n1 is in `mode` by its labels, its plugin and what it offers."""
    look = EXPECTED_MODES[edition][mode]
    expect_pool_ready(bench, nodes=1)
    expect_labels(bench, "n1", {**look.labels, "gpushare.io/pool": "training"})
    expect_offer(bench, "n1", look)
    assert not bench.node("n1")["spec"].get("unschedulable")
    for plugin in read_plugins(bench, look):
        read = json.loads(plugin["metadata"]["annotations"][names.READ])["labels"]
        assert look.labels.items() <= read.items(), f"the plugin of {mode} has read {read}"
    if look.offers:
        _expect_pod_runs(bench, mode, look)


def expect_offer(bench: Bench, node: str, look: ExpectedMode) -> None:
    """Until the node offers what the mode says and nothing of another mode."""

    def probe() -> bool:
        allocatable = bench.node(node)["status"]["allocatable"]
        offers = {each: int(allocatable.get(each, 0)) for each in RESOURCES}
        return {each: amount for each, amount in offers.items() if amount} == look.offers

    expect(bench, f"{node} offers {look.offers} and nothing else", probe)


def _expect_pod_runs(bench: Bench, mode: str, look: ExpectedMode) -> None:
    """A pod that asks for the mode's resource runs, isolated where the mode says so; it ends."""
    pod = build_pod("probe", selects={"gpushare.io/pool": "training"})
    limits = {resource: str(amount) for resource, amount in look.asks.items()}
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    name = bench.create_pod(pod)
    running = expect_running(bench, name)
    if GPU_MEM in look.offers:
        assert is_isolated(running) is look.isolates, f"in {mode}"
    bench.delete_pod(name)
    expect_gone(bench, f"/api/v1/namespaces/default/pods/{name}")


def given_nodes_in(bench: Bench, edition: Edition, nodes: dict[str, str]) -> None:
    """Nodes that people put into modes by hand (by name: the mode), each of which works."""
    bench.install(edition)
    for node, mode in nodes.items():
        bench.add_nodes(node, labels=EXPECTED_MODES[edition][mode].labels)
    for node, mode in nodes.items():
        expect_offer(bench, node, EXPECTED_MODES[edition][mode])


def our_node_writes(bench: Bench, mark: int, nodes: Sequence[str]) -> list[Call]:
    """What the operator wrote to these nodes since the mark, refused or not."""
    return [
        call
        for call in bench.audit.our_writes(mark)
        if call.resource.startswith("nodes") and call.name in nodes
    ]
