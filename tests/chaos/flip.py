"""The scenario of the crash matrix: a pool of four nodes goes from share to cgpu.

One node is blocked by a pod that must finish first; it does once the other three are done. One
has a slow plugin, so that others begin and end while it is at it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from devcluster import names
from devcluster.installation import OperatorProcess
from tests.chaos.crash import Crash, Side, Write
from tests.chaos.watching import Watching
from tests.kit.bench import MODE, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_offered,
    expect_pool_ready,
    expect_running,
    find_condition,
)
from tests.kit.cluster.fault_proxy import FaultProxy
from tests.kit.cluster.object_diff import find_differences
from tests.kit.cluster.operator_processes import wait_ready
from tests.kit.cluster.sharing_pools import place_pod
from tests.kit.values.manifests import Json, build_pool

MEMBERS = ("n1", "n2", "n3", "n4")
SLOW, BLOCKED = "n1", "n2"
BUDGET = 2
SETTINGS = {
    "GPUSHARE_RECHECK_SECONDS": "0.2",
    "GPUSHARE_RESOURCE_SETTLE_SECONDS": "0.5",
    # Longer than a busy machine delays a renewal: a process that loses its Lease ends.
    "GPUSHARE_LEASE_DURATION_SECONDS": "10",
    "GPUSHARE_LEASE_RENEW_SECONDS": "1",
}
SLOW_SECONDS = 1.5
RUN_SECONDS = 60.0


@dataclass
class Flip:
    """The scenario on one cluster, again and again; the operator goes on from run to run."""

    bench: Bench
    proxy: FaultProxy
    watching: Watching
    plugins: Mapping[str, str] = field(default_factory=dict)
    """The plugin's pods before the flip: by name, the node."""
    restarts: Counter[str] = field(default_factory=Counter)
    """By node, how often its plugin was restarted in the last run."""
    _process: OperatorProcess | None = None
    _starts: int = 0
    """In the last run, processes of the operator."""
    _identities: int = 1
    _mark: int = 0

    def run(self, crash: Crash | None = None) -> dict[str, Json]:
        """One run from fresh nodes, with at most one crash; what became of each node.

        Raises AssertionError where it does not come to its end, and where a crash that was asked
        for did not come about.
        """
        self.restarts = Counter()
        self._reset()
        before = self._count_restarts()
        if crash is not None:
            # A restarted container takes its own Lease back at once; a new Pod waits for it.
            self._identities += crash.side is Side.AFTER
            self.proxy.add(crash.build_rule(self.plugins, self._kill))
        processes = 1 if crash is None else 2
        try:
            self.bench.change_pool(schedule="cgpu")
            self._expect_done([node for node in MEMBERS if node != BLOCKED])
            self.bench.delete_pod("blocker")
            self._expect_done(MEMBERS)
            self._expect_rest(processes)
        finally:
            self.restarts = self._count_restarts() - before
        assert self._starts == processes, f"{self._starts} processes ran, expected {processes}"
        return {name: describe_node(self.bench, name) for name in MEMBERS}

    def read_writes(self) -> list[Write]:
        keys = (Write.parse(each, self.plugins) for each in self.proxy.requests[self._mark :])
        return [key for key in keys if key is not None]

    def _reset(self) -> None:
        """Four new nodes in a pool that shares; the blocker runs, the operator is at rest."""
        self.proxy.remove_all()
        self.bench.empty()
        self._revive()
        self.bench.add_nodes(*MEMBERS, labels={MODE: "share"})
        self.bench.create_pool(build_pool(rollout={"maxUnavailable": BUDGET}))
        for node in MEMBERS:
            expect_offered(self.bench, node)
        expect_pool_ready(self.bench, nodes=len(MEMBERS))
        expect_running(self.bench, place_pod(self.bench, "blocker", BLOCKED))
        self.bench.set_faults(SLOW, start_delay_seconds=SLOW_SECONDS)
        plugins = self.bench.plugins().items()
        self.plugins = {pod["metadata"]["name"]: node for node, pod in plugins}
        self._starts, self._mark = 1, len(self.proxy.requests)

    def _expect_done(self, nodes: Sequence[str]) -> None:
        """Until these nodes have changed; a process that was killed is started again."""
        self._expect(
            f"{list(nodes)} are done",
            lambda: all(is_done(self.bench.node(node)) for node in nodes),
        )

    def _expect_rest(self, processes: int) -> None:
        """Until so many processes ran, and the last of them says that the pool is ready. A write
        that the operator is to be killed at, and that never comes, is found here."""

        def probe() -> bool:
            pool = self.bench.pool()
            seen = pool["status"]["observedGeneration"] == pool["metadata"]["generation"]
            ready = find_condition(pool)["status"] == "True"
            return self._starts >= processes and seen and ready

        self._expect(f"the pool is ready, by process {processes}", probe)
        assert self._process is not None
        # It has read everything anew, and would act by now if it found something to do.
        wait_ready(self._process)

    def _expect(self, sentence: str, probe: Callable[[], bool]) -> None:
        def reviving() -> bool:
            self._revive()
            return probe()

        expect(self.bench, sentence, reviving, within_seconds=RUN_SECONDS)

    def _revive(self) -> None:
        if self._process is None or not self._process.alive:
            self._starts += 1
            self._process = self.bench.operators.start(
                "controller",
                identity=f"controller-{self._identities}",
                env=SETTINGS,
                api_url=self.proxy.url,
                wait=self._process is None,
            )

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    def _count_restarts(self) -> Counter[str]:
        self.watching.catch_up()
        return self.watching.restarts


@dataclass(frozen=True)
class Reference:
    """The undisturbed run: what it writes, and how it ends."""

    writes: frozenset[Write]
    nodes: dict[str, Json]


def learn(flip: Flip) -> Reference:
    nodes = flip.run()
    expect_each_restarted_once(flip)
    return Reference(frozenset(flip.read_writes()), nodes)


def expect_as_undisturbed(flip: Flip, crash: Crash, reference: Reference) -> None:
    """Run with a crash; each plugin is restarted once, and all nodes end as without it."""
    nodes = flip.run(crash)
    expect_each_restarted_once(flip)
    expect_same(reference.nodes, nodes)


def expect_each_restarted_once(flip: Flip) -> None:
    assert flip.restarts == Counter(MEMBERS), f"plugins were restarted: {dict(flip.restarts)}"


def expect_same(undisturbed: dict[str, Json], nodes: dict[str, Json]) -> None:
    for name, before in undisturbed.items():
        differences = find_differences(before, nodes[name])
        assert not differences, f"{name} is not as undisturbed: {differences}"


def is_done(node: Json) -> bool:
    """In service, and by its record in the mode that was wanted."""
    notes = node["metadata"]["annotations"]
    applied = json.loads(notes.get("gpushare.io/applied", "{}"))
    in_change = "gpushare.io/change" in notes or node["spec"].get("unschedulable")
    return applied.get("schedule") == "cgpu" and not in_change


def describe_node(bench: Bench, name: str) -> Json:
    """A node and its plugin as a run leaves them, without what is another each time. UIDs become
    their number, as times do."""
    node, plugin = bench.node(name), bench.plugins()[name]
    meta = node["metadata"]
    notes = {key: note for key, note in meta["annotations"].items() if "gpushare.io/" in key}
    applied = json.loads(notes.pop("gpushare.io/applied"))
    applied.pop("tookSeconds", None)
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
