"""``python -m bench.rollout``: a change of isolation over a pool, compared with single nodes."""

import asyncio
import math
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated

import orjson
import typer

from bench.core.api import Api, Json
from bench.core.figure import Figure, report_figures
from bench.core.nodewatch import NodeWatch
from bench.core.processes import read_cpu_seconds
from bench.core.session import own_cluster, run, say
from bench.core.waiting import BenchError
from bench.core.ways import PACE, SHARE
from devcluster.cluster import Cluster
from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import AuditTail
from tests.kit.cluster.operator_processes import wait_ready
from tests.kit.values.manifests import build_pool

FIGURES = (
    Figure("nodes", "nodes", form="d"),
    Figure("budget", "nodes at once", form="d"),
    Figure("single_s", "s for a node alone"),
    Figure("rollout_s", "s", form=".1f"),
    Figure("ratio", "times a node alone, one budget after another", limit=1.16, goal=1.1),
    Figure("budget_used", "of the budget"),
    Figure("beyond_budget", "nodes", limit=0, form="d"),
    Figure("cpu_s", "s of CPU", form=".1f"),
    Figure("writes_per_node", "writes"),
    Figure("other_writes", "writes", form="d"),
)
_FLEET = "fleet"
_ALONE = 5
"""Number of nodes that flip alone before."""
_CHANGE = "gpushare.io/change"
_APPLIED = "gpushare.io/applied"
_READY_SECONDS = 900
_FLIP_SECONDS = 120
_SLOWEST_RATIO = 10


class Changes:
    """Tells whether a node is in a mode, verified, and in service again, and records both times.

    The write that uncordons a node also removes its `change` and sets the mode in `applied`.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._begun: dict[str, float] = {}
        self._done: dict[str, float] = {}

    def __call__(self, meta: Json) -> bool:
        name, notes = meta["name"], meta["annotations"]
        if _CHANGE in notes:
            self._begun.setdefault(name, time.monotonic())
            return False
        if orjson.loads(notes.get(_APPLIED, "{}")).get("schedule") != self._mode:
            return False
        self._done[name] = time.monotonic()
        return True

    def spans(self) -> Sequence[tuple[float, float]]:
        """Return the times at which each changed node was cordoned and uncordoned."""
        return [(begun, self._done[name]) for name, begun in self._begun.items()]


@dataclass(frozen=True)
class Result:
    """Results of a run. A flip lasts from the pool's edit until its last node is in the new mode,
    verified and in service again."""

    budget: int
    single_seconds: Sequence[float]
    rollout_seconds: float
    changes: Sequence[tuple[float, float]] = field(repr=False)
    """Times at which each node of the rollout was cordoned and uncordoned."""
    node_writes: int
    other_writes: int
    cpu_seconds: float
    """CPU time of the controller over the rollout."""

    @property
    def most_at_once(self) -> int:
        """The most nodes in a change at one moment."""
        begun, done = zip(*self.changes, strict=True)
        ends = sorted([*((at, 1) for at in begun), *((at, -1) for at in done)])
        return max(accumulate(step for _, step in ends))

    def find_values(self) -> dict[str, float]:
        """Find all values; the ratio is to as many single flips as the nodes divided by the
        budget."""
        nodes, single = len(self.changes), statistics.median(self.single_seconds)
        alone = math.ceil(nodes / self.budget) * single
        in_change = sum(done - begun for begun, done in self.changes)
        return {
            "nodes": nodes,
            "budget": self.budget,
            "single_s": single,
            "rollout_s": self.rollout_seconds,
            "ratio": self.rollout_seconds / alone,
            "budget_used": in_change / (self.budget * self.rollout_seconds),
            "beyond_budget": max(0, self.most_at_once - self.budget),
            "cpu_s": self.cpu_seconds,
            "writes_per_node": self.node_writes / nodes,
            "other_writes": self.other_writes,
        }


def bench(
    nodes: Annotated[int, typer.Option(min=2, help="Nodes of the large pool.")] = 100,
    percent: Annotated[int, typer.Option(min=1, max=100, help="Its maxUnavailable.")] = 50,
) -> None:
    """Measure, print the figures; fail where the rollout took too long."""
    with own_cluster() as cluster:
        result = asyncio.run(_measure(cluster, nodes, percent))
    report_figures("rollout", FIGURES, result.find_values())


async def _measure(cluster: Cluster, nodes: int, percent: int) -> Result:
    place = Bench(cluster)
    fleet = [f"n{number:04}" for number in range(nodes)]
    singles = [f"alone-{number}" for number in range(_ALONE)]
    await asyncio.to_thread(_add_nodes, place, fleet, singles)
    async with Api(cluster.kubeconfig) as api, asyncio.TaskGroup() as tasks:
        watch = NodeWatch(api)
        await watch.start()
        watching = tasks.create_task(watch.run())
        try:
            pid = await asyncio.to_thread(_start, place, percent, singles)
            shared = watch.when_all(Changes("share"))
            await watch.wait(shared, "all nodes are in their pools", seconds=_READY_SECONDS)
            say(f"{nodes} nodes of one pool, and {_ALONE} alone, share their cards")
            seconds = []
            for single in singles:
                await watch.until_still()
                flip = await _flip(place, watch, single, [single], _FLIP_SECONDS)
                seconds.append(flip[0])
                say(f"one node alone: {seconds[-1]:.2f} s")
            budget = max(1, nodes * percent // 100)
            return await _roll_out(place, watch, fleet, budget, seconds, pid)
        finally:
            watching.cancel()


def _add_nodes(place: Bench, fleet: Sequence[str], singles: Sequence[str]) -> None:
    """Add nodes that share their cards, as fast as real ones, without the operator."""
    place.operators.installation.apply()
    place.install("Basic")
    place.add_nodes(*fleet, labels=SHARE, node_pool=_FLEET, faults=PACE)
    for single in singles:
        place.add_nodes(single, labels=SHARE, node_pool=single, faults=PACE)


def _start(place: Bench, percent: int, singles: Sequence[str]) -> int:
    """Start a controller with the settings of an installation, and create the pools; return the
    controller's PID."""
    process = place.operators.installation.start("controller", identity="measured")
    wait_ready(process)
    rollout = {"maxUnavailable": f"{percent}%"}
    place.create_pool(build_pool(_FLEET, edition="Basic", node_pool=_FLEET, rollout=rollout))
    for single in singles:
        place.create_pool(build_pool(single, edition="Basic", node_pool=single))
    return process.process.pid


async def _roll_out(
    place: Bench,
    watch: NodeWatch,
    fleet: Sequence[str],
    budget: int,
    singles: Sequence[float],
    pid: int,
) -> Result:
    """Measure the large pool's change; check that each plugin was restarted once."""
    await watch.until_still()
    running = await asyncio.to_thread(place.plugins)
    plugins = sorted(running[node]["metadata"]["name"] for node in fleet)
    longest = _SLOWEST_RATIO * max(singles) * math.ceil(len(fleet) / budget)
    with closing(AuditTail(place.cluster.audit_log)) as audit:
        cpu = read_cpu_seconds(pid)
        seconds, changes = await _flip(place, watch, _FLEET, fleet, longest)
        cpu = read_cpu_seconds(pid) - cpu
        writes = audit.read_our_writes()
    deletions = [call.name for call in writes if call.verb == "delete" and call.succeeded]
    if sorted(deletions) != plugins:
        raise BenchError(f"not each plugin was deleted once: {len(deletions)} deletions")
    to_nodes = sum(call.resource == "nodes" for call in writes)
    return Result(
        budget=budget,
        single_seconds=singles,
        rollout_seconds=seconds,
        changes=changes.spans(),
        node_writes=to_nodes,
        other_writes=len(writes) - to_nodes,
        cpu_seconds=cpu,
    )


async def _flip(
    place: Bench, watch: NodeWatch, pool: str, members: Sequence[str], within_seconds: float
) -> tuple[float, Changes]:
    """Change a pool; return the seconds from its edit until all `members` are in mode cgpu and in
    service, and their changes."""
    changes = Changes("cgpu")
    done = watch.when_all(changes, members)
    started = time.monotonic()
    await asyncio.to_thread(place.change_pool, pool, schedule="cgpu")
    finished = await watch.wait(done, f"pool {pool} has changed", seconds=within_seconds)
    return finished - started, changes


if __name__ == "__main__":
    run(bench)
