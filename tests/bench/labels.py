"""``python -m tests.bench.labels``: how fast pools label nodes, and what that costs.

On one control plane of its own: nodes are added once, 100 -> 1,000 -> all, and what is measured at
a size is measured then.
"""

import asyncio
import random
from enum import StrEnum
from typing import Annotated

import typer

from devcluster.cluster import Cluster
from tests.bench.event import measure_event_cost, measure_repairs
from tests.bench.figure import tell
from tests.bench.figures import Figures
from tests.bench.memory import measure_memory
from tests.bench.progress import show_event_cost, show_memory, show_repairs, show_round
from tests.bench.ratio import Round, measure_round
from tests.bench.rest import until_all_is_told
from tests.bench.rig import Rig, open_rig
from tests.bench.session import own_cluster, run, say

NAME = "bench-labels"
FEW, MIDDLE, ALL = 100, 1000, 5000
_REST_SECONDS = 60
_SEED = 4

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Phase(StrEnum):
    """What can be measured by itself."""

    RATIO = "ratio"
    EVENT = "event"
    REST = "rest"
    MEMORY = "memory"


@app.command()
def bench(
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes at the end.")] = ALL,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of loop and operator.")] = 5,
    only: Annotated[
        str, typer.Option(help=f"Phases, with commas between: {', '.join(Phase)}.")
    ] = ",".join(Phase),
) -> None:
    """Measure, print a table and a summary, and fail where a figure misses its bound."""
    try:
        phases = frozenset(Phase(name) for name in only.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"{error}; phases are {', '.join(Phase)}") from error
    with own_cluster(NAME) as cluster:
        figures = asyncio.run(_measure(cluster, phases, nodes, rounds))
    tell(NAME, list(figures.figures()))


async def _measure(cluster: Cluster, phases: frozenset[Phase], nodes: int, rounds: int) -> Figures:
    figures = Figures()
    async with open_rig(cluster) as rig:
        if Phase.EVENT in phases:
            await _grow(rig, min(FEW, nodes))
            await rig.settle()
            figures.event_few = await measure_event_cost(rig)
            say(show_event_cost(figures.event_few))
            await rig.clear()
        if Phase.MEMORY in phases:
            await _grow(rig, min(MIDDLE, nodes))
            await _add_gpu_pods(rig)
            figures.memory_middle = await measure_memory(rig)
            say(show_memory(figures.memory_middle))
        await _grow(rig, nodes)
        if Phase.RATIO in phases:
            figures.rounds_all = await _measure_rounds(rig, rounds)
        if phases & {Phase.EVENT, Phase.REST}:
            await rig.settle()
            await _measure_settled(rig, phases, figures)
            await rig.clear()
        if Phase.MEMORY in phases:
            await _add_gpu_pods(rig)
            figures.memory_all = await measure_memory(rig)
            say(show_memory(figures.memory_all))
    return figures


async def _measure_rounds(rig: Rig, count: int) -> list[Round]:
    rounds = []
    for number in range(1, count + 1):
        rounds.append(await measure_round(rig))
        say(show_round(number, rounds[-1]))
    return rounds


async def _measure_settled(rig: Rig, phases: frozenset[Phase], figures: Figures) -> None:
    """What is measured on a pool that is Ready on all nodes."""
    if Phase.EVENT in phases:
        figures.event_all = await measure_event_cost(rig)
        say(show_event_cost(figures.event_all))
    if Phase.REST in phases:
        figures.repairs = await measure_repairs(rig, random.Random(_SEED), pid=rig.pid)
        say(show_repairs(figures.repairs))
        await until_all_is_told(rig)
        # Nothing can be waited for: that nothing happens is what is measured.
        await asyncio.sleep(_REST_SECONDS)
        writes = rig.audit.read_our_writes()
        figures.writes_at_rest = len(writes)
        say(f"{_REST_SECONDS} s at rest: {len(writes)} writes {writes[:5] or ''}")


async def _grow(rig: Rig, size: int) -> None:
    if size > len(rig.fleet):
        seconds = await rig.grow(size)
        say(f"{size} nodes with their plugin, after {seconds:.0f} s")


async def _add_gpu_pods(rig: Rig) -> None:
    seconds = await rig.fleet.add_gpu_pods()
    say(f"{rig.fleet.pods} pods, after {seconds:.0f} s")


if __name__ == "__main__":
    run(app)
