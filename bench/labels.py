"""``python -m bench.labels``: a new pool labels its nodes, beside a loop of the same writes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import orjson

from bench.core import loop
from bench.core.figure import Figure, is_steady, tell
from bench.core.processes import read_cpu_seconds, running
from bench.core.rig import LABELS, Rig, is_labelled, open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster

_SIZES = (1000, 5000)
_WITHIN_SECONDS = 900
_MOST_RATIO = 1.3


@dataclass(frozen=True)
class Round:
    """One run of the loop and one of the operator."""

    nodes: int
    floor_seconds: float
    operator_seconds: float
    cpu_seconds: float
    """The controller's, until it is idle again."""
    node_writes: int
    other_writes: int
    """To the pool and its status, and Events."""

    @property
    def ratio(self) -> float:
        """The operator's time by the loop's."""
        return self.operator_seconds / self.floor_seconds


def list_figures(rounds: Sequence[Round]) -> list[Figure]:
    """What the rounds of one size come to; the worst of them counts for the writes."""
    nodes = rounds[0].nodes
    figures = (
        Figure("ratio", median(each.ratio for each in rounds), most=_MOST_RATIO),
        Figure("cpu_s", max(each.cpu_seconds for each in rounds), form=".1f"),
        Figure("stray_writes", max(abs(r.node_writes - nodes) for r in rounds), most=0, form="d"),
        Figure("other_writes", max(each.other_writes for each in rounds), form="d"),
    )
    return [replace(figure, name=f"{figure.name}_{nodes}") for figure in figures]


def bench() -> None:
    """Measure, print each round and a line of figures, and fail where one misses its bound."""
    with own_cluster() as cluster:
        found = asyncio.run(_measure(cluster))
    tell("labels", found)


async def _measure(cluster: Cluster) -> list[Figure]:
    figures: list[Figure] = []
    async with open_rig(cluster) as rig:
        for size in _SIZES:
            await rig.grow(size)
            rounds: list[Round] = []
            while not is_steady([each.ratio for each in rounds]):
                rounds.append(await _measure_round(rig))
                say(f"round {len(rounds)}: {rounds[-1]}")
            figures += list_figures(rounds)
    return figures


async def _measure_round(rig: Rig) -> Round:
    """The nodes are as they joined before and after it, and no controller runs."""
    floor_seconds = await _measure_floor(rig)
    await rig.fleet.reset()
    await rig.start_operator()
    rig.audit.read_our_writes()
    cpu = read_cpu_seconds(rig.pid)
    operator_seconds = await _time(rig, rig.create_pool, "the operator labels the nodes")
    # A second write to a node would come late.
    await rig.until_ready()
    cpu = read_cpu_seconds(rig.pid) - cpu
    writes = [write.resource for write in rig.audit.read_our_writes()]
    await rig.clear()
    to_nodes = writes.count("nodes")
    others = len(writes) - to_nodes
    return Round(len(rig.fleet), floor_seconds, operator_seconds, cpu, to_nodes, others)


async def _measure_floor(rig: Rig) -> float:
    """Seconds that the bare loop takes; its labels stay on the nodes."""
    uids = {name: meta["uid"] for name, meta in rig.nodes.metadata.items()}
    asked = orjson.dumps([LABELS, uids])
    async with running(loop.__name__, str(rig.installation.cluster.kubeconfig)) as bare:
        await bare.listen()

        async def label() -> None:
            await bare.ask(asked)

        return await _time(rig, label, "the bare loop labels the nodes")


async def _time(rig: Rig, start: Callable[[], Awaitable[None]], what: str) -> float:
    """Seconds from `start` until the watch has shown every node labelled."""
    await rig.until_server_rests()
    labelled = rig.nodes.when_all(is_labelled)
    started = time.monotonic()
    await start()
    finished = await rig.nodes.wait(labelled, what, seconds=_WITHIN_SECONDS)
    return finished - started


if __name__ == "__main__":
    run(bench)
