"""The scenario of the crash matrix: a pool of four nodes goes from share to cgpu.

One node is blocked by a pod that must finish first; it does once the other three are done. One
has a slow plugin, so that others begin and end while it is at it.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from devcluster import names
from tests.chaos.crash import Crash, Write
from tests.chaos.crash_runs import CrashRuns
from tests.chaos.watching import Watching
from tests.kit.bench import MODE, Bench
from tests.kit.cluster.expect import expect_offered, expect_pool_ready, expect_running
from tests.kit.cluster.fault_proxy import FaultProxy
from tests.kit.cluster.object_diff import find_differences
from tests.kit.cluster.sharing_pools import place_pod
from tests.kit.values.manifests import Json, build_pool

MEMBERS = ("n1", "n2", "n3", "n4")
SLOW, BLOCKED = "n1", "n2"
BUDGET = 2
SLOW_SECONDS = 1.5


class Flip(CrashRuns):
    """The scenario on one cluster."""

    def _set_up(self) -> None:
        """Four new nodes in a pool that shares; the blocker runs, the operator is at rest."""
        self.bench.add_nodes(*MEMBERS, labels={MODE: "share"})
        self.bench.create_pool(build_pool(rollout={"maxUnavailable": BUDGET}))
        for node in MEMBERS:
            expect_offered(self.bench, node)
        expect_pool_ready(self.bench, nodes=len(MEMBERS))
        expect_running(self.bench, place_pod(self.bench, "blocker", BLOCKED))
        self.bench.set_faults(SLOW, start_delay_seconds=SLOW_SECONDS)
        plugins = self.bench.plugins().items()
        self.plugins = {pod["metadata"]["name"]: node for node, pod in plugins}

    def _change(self) -> None:
        self.bench.change_pool(schedule="cgpu")
        self._expect_done([node for node in MEMBERS if node != BLOCKED], "cgpu")
        self.bench.delete_pod("blocker")
        self._expect_done(MEMBERS, "cgpu")

    def describe_nodes(self) -> dict[str, Json]:
        """What became of each node."""
        return {name: describe_node(self.bench, name) for name in MEMBERS}


@dataclass(frozen=True)
class Reference:
    """The undisturbed run: what it writes, and how it ends."""

    writes: frozenset[Write]
    nodes: dict[str, Json]


def learn(flip: Flip) -> Reference:
    flip.run()
    expect_each_restarted_once(flip)
    return Reference(frozenset(flip.read_writes()), flip.describe_nodes())


def expect_as_undisturbed(flip: Flip, crash: Crash, reference: Reference) -> None:
    """Run with a crash; each plugin is restarted once, and all nodes end as without it."""
    flip.run(crash)
    expect_each_restarted_once(flip)
    expect_same(reference.nodes, flip.describe_nodes())


def expect_each_restarted_once(flip: Flip) -> None:
    assert flip.restarts == Counter(MEMBERS), f"plugins were restarted: {dict(flip.restarts)}"


def expect_same(undisturbed: dict[str, Json], nodes: dict[str, Json]) -> None:
    for name, before in undisturbed.items():
        differences = find_differences(before, nodes[name])
        assert not differences, f"{name} is not as undisturbed: {differences}"


def describe_node(bench: Bench, name: str) -> Json:
    """A node and its plugin as a run leaves them, without what is another each time. UIDs become
    their number, as times do."""
    node, plugin = bench.node(name), bench.plugins()[name]
    meta = node["metadata"]
    notes = {key: note for key, note in meta["annotations"].items() if "gpushare.io/" in key}
    applied = json.loads(notes.pop("gpushare.io/applied"))
    assert applied.pop("nodeUID") == meta["uid"]
    applied.pop("tookSeconds", None)
    if "gpushare.io/restarts" in notes:
        notes["gpushare.io/restarts"] = len(json.loads(notes["gpushare.io/restarts"])["at"])
    return {
        "metadata": {"labels": meta["labels"], "managedFields": meta["managedFields"]},
        "records": notes,
        "applied": {**applied, "plugins": list(applied["plugins"].values())},
        "unschedulable": node["spec"].get("unschedulable", False),
        "offers": {key: n for key, n in node["status"]["allocatable"].items() if "/" in key},
        "module": meta["annotations"].get(names.MODULE),
        "read": json.loads(plugin["metadata"]["annotations"][names.READ])["labels"],
    }


@contextmanager
def standing(bench: Bench) -> Iterator[Flip]:
    """The scenario on a cluster, watched for as long as the block lasts. Leaving the block in peace
    raises AssertionError with all that the watcher found."""
    bench.install("Professional")
    with FaultProxy(bench.cluster) as proxy, Watching(bench, budget=BUDGET) as watching:
        try:
            yield Flip(bench, proxy, watching)
        finally:
            bench.clear()
