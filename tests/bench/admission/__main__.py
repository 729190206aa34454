"""``python -m tests.bench.admission``: what the webhook costs, and whom it holds up.

Alone beside a bare handler, then in front of a real API server, then while a burst comes.
"""

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from devcluster.cluster import Cluster
from tests.bench.admission.alone import ALL_ENTRIES
from tests.bench.admission.burst import begin_rollout, measure_burst, settle_pools
from tests.bench.admission.figures import Figures
from tests.bench.admission.pairing import create_namespace
from tests.bench.admission.phases import measure_alone, measure_front
from tests.bench.admission.webhook import serving
from tests.bench.figure import tell
from tests.bench.rig import Rig, open_rig
from tests.bench.session import own_cluster, run, say

NAME = "bench-admission"
ALL = 5000
_STARTS = 3
_NAMESPACE = "bench-burst"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Phase(StrEnum):
    """What can be measured by itself."""

    ALONE = "alone"
    FRONT = "front"
    BURST = "burst"


@app.command()
def bench(
    nodes: Annotated[int, typer.Option(min=200, help="Nodes during the burst.")] = ALL,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each comparison.")] = 5,
    only: Annotated[
        str, typer.Option(help=f"Phases, with commas between: {', '.join(Phase)}.")
    ] = ",".join(Phase),
) -> None:
    """Measure, print tables and a summary, and fail where a figure misses its bound."""
    try:
        phases = frozenset(Phase(name) for name in only.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"{error}; phases are {', '.join(Phase)}") from error
    figures = Figures()
    if Phase.ALONE in phases:
        asyncio.run(measure_alone(figures, [ALL_ENTRIES] * rounds))
    if phases & {Phase.FRONT, Phase.BURST}:
        with own_cluster(NAME) as cluster:
            asyncio.run(_measure_on(cluster, phases, figures, nodes, rounds))
    tell(NAME, list(figures.figures()))


async def _measure_on(
    cluster: Cluster, phases: frozenset[Phase], figures: Figures, nodes: int, rounds: int
) -> None:
    async with open_rig(cluster) as rig:
        if Phase.FRONT in phases:
            await measure_front(rig, figures, rounds)
        if Phase.BURST in phases:
            await _measure_burst(rig, figures, nodes)


async def _measure_burst(rig: Rig, figures: Figures, nodes: int) -> None:
    seconds = await rig.grow(nodes)
    say(f"{nodes} nodes with their plugin, after {seconds:.0f} s")
    await create_namespace(rig.api, _NAMESPACE)
    await settle_pools(rig)
    starts = []
    for number in range(1, _STARTS + 1):
        async with serving(rig) as webhook:
            starts.append(webhook.ready_seconds)
            say(f"start {number}: ready after {webhook.ready_seconds:.2f} s")
            if number == _STARTS:
                await begin_rollout(rig)
                figures.burst = await measure_burst(rig, webhook, _NAMESPACE)
                say(str(figures.burst))
    figures.ready_seconds = starts


if __name__ == "__main__":
    run(app)
