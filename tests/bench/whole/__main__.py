"""``python -m tests.bench.whole``: every figure once, in minutes, as a table and as JSON.

The webhook alone; a rollout on a cluster of its own; all else on one cluster that grows.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from devcluster.cluster import Cluster
from tests.bench import figures as labels
from tests.bench.admission import figures as admission
from tests.bench.admission.alone import CONNECTIONS, FLOOR, KOPF, MANY_POOLS, OURS, SOME, Entries
from tests.bench.admission.front import EIGHT, ONE
from tests.bench.admission.phases import measure_alone, measure_front
from tests.bench.figure import Figure, find_misses
from tests.bench.rest import Rest, build_figures
from tests.bench.result import Sizes, build_result, write_result
from tests.bench.rig import open_rig
from tests.bench.rollout import measure_rollout
from tests.bench.session import own_cluster, run, say
from tests.bench.table import show_table
from tests.bench.whole.clock import Clock
from tests.bench.whole.labels import measure_all, measure_middle

NAME = "bench"
ALL, ROUNDS = 5000, 3
OUT = Path("build/bench.json")
_MIDDLE_SHARE = 5
_ROLLOUT_SHARE = 50
_FEWEST_ROLLED = 10
_BUDGET_PERCENT = 50
_ALONE = 3

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def bench(
    nodes: Annotated[int, typer.Option(min=50, help="How many nodes at the end.")] = ALL,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each comparison.")] = ROUNDS,
    out: Annotated[Path, typer.Option(help="Where the result is written, as JSON.")] = OUT,
) -> None:
    """Measure everything once; print a table, and a sentence for each bound that is missed."""
    sizes, clock = choose_sizes(nodes, rounds), Clock()
    admitted, labelled = admission.Figures(), labels.Figures()
    with clock.timing("admission, the webhook alone"):
        asyncio.run(measure_alone(admitted, choose_entries(rounds)))
    with clock.timing("rollout"), own_cluster(NAME) as cluster:
        rolled = asyncio.run(measure_rollout(cluster, sizes.rollout, _BUDGET_PERCENT, _ALONE))
    with own_cluster(NAME) as cluster:
        rest, kubernetes = asyncio.run(_measure_on(cluster, sizes, clock, admitted, labelled))
    figures = [
        *name_after("labels", labelled.figures()),
        *name_after("rollout", rolled.figures()),
        *name_after("admission", admitted.figures()),
        *name_after("rest", build_figures(rest)),
    ]
    print(show_table(figures))
    for miss in find_misses(figures):
        print(f"{NAME}: {miss}", file=sys.stderr)
    result = build_result(
        figures,
        taken_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        kubernetes=kubernetes,
        sizes=sizes,
        seconds=clock.seconds,
    )
    write_result(result, out)
    say(f"written to {out}; make bench-check RESULT={out} compares it")


def choose_sizes(nodes: int, rounds: int) -> Sizes:
    """A fifth of the nodes first, and a fiftieth of so many in the rollout, but ten at least."""
    rollout = max(_FEWEST_ROLLED, nodes // _ROLLOUT_SHARE)
    return Sizes(nodes, nodes // _MIDDLE_SHARE, rollout, rounds)


def choose_entries(rounds: int) -> Sequence[Entries]:
    """What each round measures of the webhook alone: Kopf's own way, which is slow, once."""
    usual = (FLOOR, OURS, MANY_POOLS)
    entries = dict.fromkeys(CONNECTIONS, usual)
    return [{**entries, SOME: (*usual, KOPF)}, *[entries] * (rounds - 1)]


def name_after(part: str, figures: Iterable[Figure]) -> Iterator[Figure]:
    """The figures of a part, by names that no other part has."""
    return (replace(figure, name=f"{part}.{figure.name}") for figure in figures)


async def _measure_on(
    cluster: Cluster,
    sizes: Sizes,
    clock: Clock,
    admitted: admission.Figures,
    labelled: labels.Figures,
) -> tuple[Rest, str]:
    """What is at rest in the end, and the version of Kubernetes."""
    async with open_rig(cluster) as rig:
        version = await rig.api.call("GET", "version")
        with clock.timing("admission, through the API server"):
            await measure_front(rig, admitted, sizes.rounds, (ONE, EIGHT))
        with clock.timing(f"{sizes.middle} nodes"):
            await measure_middle(rig, labelled, sizes.middle, sizes.rounds)
        with clock.timing(f"{sizes.nodes} nodes"):
            rest = await measure_all(rig, labelled, sizes.nodes)
        return rest, version["gitVersion"]


if __name__ == "__main__":
    run(app)
