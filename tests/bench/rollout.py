"""``python -m tests.bench.rollout``: an isolation change over a whole pool, beside one node alone.

Both in one run, by one controller with an installation's settings: first several pools of one node
flip, one after another, while a large pool is at rest; then the large one flips, with a budget.
"""

import asyncio
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
import typer

from devcluster import names
from devcluster.cluster import Cluster
from devcluster.installation import OperatorProcess
from devcluster.startup import tail
from tests.bench.api import Api
from tests.bench.figure import Better, Figure, Unit, tell
from tests.bench.flips import PACE
from tests.bench.footprint import read_cpu_seconds
from tests.bench.nodewatch import Holds, NodeWatch
from tests.bench.session import own_cluster, run, say
from tests.bench.waiting import BenchError
from tests.kit.arrange import expect_each_restarted_once
from tests.kit.bench import Bench
from tests.kit.builders import build_pool
from tests.kit.expect import is_out_of_service
from tests.kit.operator import wait_ready

Json = dict[str, Any]

NAME = "bench-rollout"
_MOST_RATIO = 1.2
"""The longest that a rollout may take, by what its nodes would take one budget after another."""
_FLEET = "fleet"
_CHANGE = "gpushare.io/change"
_APPLIED = "gpushare.io/applied"
_SHARE = {names.CGPU: "true", names.DISABLE_ISOLATION: "true"}
_READY_SECONDS = 300
_FLIP_SECONDS = 120
_SLOWEST_RATIO = 10
_GUARD_SECONDS = 0.5

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Figures:
    """The results of a run. A flip lasts from the pool's edit until its last node is in the new
    mode, verified and in service again."""

    nodes: int
    budget: int
    single_seconds: Sequence[float]
    rollout_seconds: float
    change_seconds: Sequence[float] = field(repr=False)
    """How long each node of the rollout was in its change, from the cordon on."""
    most_at_once: int
    """Nodes that were out of service at one moment, at most."""

    @property
    def ratio(self) -> float:
        """The rollout by as many single flips as it has budgets full of nodes."""
        rounds = math.ceil(self.nodes / self.budget)
        return self.rollout_seconds / (rounds * statistics.median(self.single_seconds))

    @property
    def slots_used(self) -> float:
        """The share of the budget that was in use, over the whole time."""
        return sum(self.change_seconds) / (self.budget * self.rollout_seconds)

    @property
    def facts(self) -> str:
        """What the figures come from."""
        return (
            f"nodes={self.nodes} budget={self.budget} "
            f"single_median_s={statistics.median(self.single_seconds):.2f} "
            f"rollout_s={self.rollout_seconds:.1f}"
        )

    def figures(self) -> Iterator[Figure]:
        """What a rollout is held to."""
        singles = tuple({"single_s": seconds} for seconds in self.single_seconds)
        yield Figure(
            name="ratio",
            what=f"a change of isolation of {self.nodes} nodes, {self.budget} at once",
            value=self.ratio,
            bound=_MOST_RATIO,
            floor="one node alone, as often as the budget is filled",
            rounds=(*singles, {"rollout_s": self.rollout_seconds}),
        )
        yield Figure(
            name="budget_used",
            what="share of the budget that was in use, over the whole time",
            value=self.slots_used,
            unit=Unit.SHARE,
            better=Better.HIGHER,
            floor="the budget",
        )
        yield Figure(
            name="beyond_budget",
            what="nodes out of service at one moment, more than the budget",
            value=max(0, self.most_at_once - self.budget),
            unit=Unit.COUNT,
            bound=0,
            rounds=({"nodes": self.most_at_once, "budget": self.budget},),
        )


@app.command()
def bench(
    nodes: Annotated[int, typer.Option(min=10, help="Nodes of the large pool.")] = 200,
    percent: Annotated[int, typer.Option(min=1, max=100, help="Its maxUnavailable.")] = 10,
    alone: Annotated[int, typer.Option(min=1, help="Nodes that flip alone before.")] = 5,
) -> None:
    """Measure, print what was found and a summary; fail where the rollout took too long."""
    with own_cluster(NAME) as cluster:
        figures = asyncio.run(measure_rollout(cluster, nodes, percent, alone))
    tell(NAME, list(figures.figures()), facts=figures.facts)


async def measure_rollout(cluster: Cluster, nodes: int, percent: int, alone: int) -> Figures:
    """On a cluster without nodes, with its simulator: single flips, then the rollout."""
    place = Bench(cluster)
    fleet = [f"n{number:04}" for number in range(nodes)]
    singles = [f"alone-{number}" for number in range(alone)]
    await asyncio.to_thread(_add_nodes, place, fleet, singles)
    async with Api(cluster.kubeconfig) as api, asyncio.TaskGroup() as tasks:
        watch = NodeWatch(api)
        await watch.start()
        controller = await asyncio.to_thread(_start_controller, place)
        beside = [tasks.create_task(work) for work in (watch.run(), _guard(controller))]
        try:
            await asyncio.to_thread(_create_pools, place, percent, singles)
            shared = watch.when_all(is_done("share"))
            await watch.wait(shared, "all nodes are in their pools", seconds=_READY_SECONDS)
            say(f"{nodes} nodes of one pool, and {alone} alone, share their cards")
            seconds = [await _flip_alone(place, watch, single) for single in singles]
            budget = max(1, nodes * percent // 100)
            return await _roll_out(place, watch, fleet, budget, seconds)
        finally:
            for task in beside:
                task.cancel()


def _add_nodes(place: Bench, fleet: Sequence[str], singles: Sequence[str]) -> None:
    """Nodes that share their cards, as fast as real ones; no operator yet."""
    place.operators.installation.apply()
    place.install("Basic")
    place.add_nodes(*fleet, labels=_SHARE, node_pool=_FLEET, faults=PACE)
    for single in singles:
        place.add_nodes(single, labels=_SHARE, node_pool=single, faults=PACE)


def _start_controller(place: Bench) -> OperatorProcess:
    """The controller with the settings of an installation, ready."""
    process = place.operators.installation.start("controller", identity="measured")
    wait_ready(process)
    return process


def _create_pools(place: Bench, percent: int, singles: Sequence[str]) -> None:
    """One of the fleet, with a budget, and one of each single node."""
    rollout = {"maxUnavailable": f"{percent}%"}
    place.create_pool(build_pool(_FLEET, edition="Basic", node_pool=_FLEET, rollout=rollout))
    for single in singles:
        place.create_pool(build_pool(single, edition="Basic", node_pool=single))


async def _guard(controller: OperatorProcess) -> None:
    """Raise `BenchError` once the controller ends by itself: nobody starts it again here."""
    while True:
        if not controller.alive:
            raise BenchError(f"the controller ended by itself:\n{tail(controller.log)}")
        await asyncio.sleep(_GUARD_SECONDS)


async def _flip_alone(place: Bench, watch: NodeWatch, single: str) -> float:
    """Seconds that the pool of a single node takes from share to cgpu, with nothing else to do."""
    await watch.until_still()
    seconds = await _flip(place, watch, single, [single], within_seconds=_FLIP_SECONDS)
    say(f"one node alone: {seconds:.2f} s")
    return seconds


async def _roll_out(
    place: Bench, watch: NodeWatch, fleet: Sequence[str], budget: int, singles: Sequence[float]
) -> Figures:
    """The large pool's change; each plugin was restarted once."""
    await watch.until_still()
    running = await asyncio.to_thread(place.plugins)
    plugins = sorted(running[node]["metadata"]["name"] for node in fleet)
    mark = place.audit.mark()
    begun = [watch.when_all(_is_in_change, [node]) for node in fleet]
    done = [watch.when_all(is_done("cgpu"), [node]) for node in fleet]
    longest = _SLOWEST_RATIO * max(singles) * len(fleet) / budget
    pids = _list_processes(place)
    before = {name: read_cpu_seconds(pid) for name, pid in pids.items()}
    with place.watching() as recording:
        seconds = await _flip(place, watch, _FLEET, fleet, within_seconds=longest)
    used = {name: read_cpu_seconds(pid) - before[name] for name, pid in pids.items()}
    await asyncio.to_thread(expect_each_restarted_once, place, plugins, mark)
    figures = Figures(
        nodes=len(fleet),
        budget=budget,
        single_seconds=singles,
        rollout_seconds=seconds,
        change_seconds=[d.result() - b.result() for b, d in zip(begun, done, strict=True)],
        most_at_once=len(recording.most_at_once(is_out_of_service)),
    )
    say(
        f"{figures.nodes} nodes: {seconds:.1f} s; a node was in its change for "
        f"{statistics.median(figures.change_seconds):.2f} s (median, at most "
        f"{max(figures.change_seconds):.2f} s); at most {figures.most_at_once} were out of "
        f"service, and {figures.slots_used:.0%} of the budget was in use"
    )
    say("CPU: " + ", ".join(f"{name} {cpu:.1f} s" for name, cpu in used.items()))
    return figures


def _list_processes(place: Bench) -> dict[str, int]:
    """What a slow rollout may have waited for."""
    (controller,) = place.operators.installation.processes
    servers = {name: place.cluster.pid(name) for name in ("kube-apiserver", "etcd")}
    return {"controller": controller.process.pid, **servers}


async def _flip(
    place: Bench,
    watch: NodeWatch,
    pool: str,
    members: Sequence[str],
    *,
    within_seconds: float,
) -> float:
    """Seconds from the pool's edit until all `members` are in the mode cgpu and in service."""
    done = watch.when_all(is_done("cgpu"), members)
    started = time.monotonic()
    await asyncio.to_thread(place.change_pool, pool, schedule="cgpu")
    return await watch.wait(done, f"pool {pool} has changed", seconds=within_seconds) - started


def _is_in_change(meta: Json) -> bool:
    return _CHANGE in meta["annotations"]


def is_done(mode: str) -> Holds:
    """The write that lets a node go also drops its `change` and names the mode in `applied`."""

    def holds(meta: Json) -> bool:
        notes = meta["annotations"]
        applied = orjson.loads(notes.get(_APPLIED, "{}"))
        return _CHANGE not in notes and applied.get("schedule") == mode

    return holds


if __name__ == "__main__":
    run(app)
