"""``python -m bench.labels``: a new pool labels its nodes, compared with a loop of equal writes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from bench.core.figure import Figure, is_steady, report_figures
from bench.core.labelling import label_bare, label_by_operator
from bench.core.rig import Rig, open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster

_SIZES = (1000, 5000)
_MOST_RATIO = 1.3


@dataclass(frozen=True)
class Round:
    """One run of the loop and one of the operator."""

    nodes: int
    floor_seconds: float
    operator_seconds: float
    cpu_seconds: float
    """CPU time of the controller until it is idle again."""
    node_writes: int
    other_writes: int
    """Writes to the pool and its status, and Events."""

    @property
    def ratio(self) -> float:
        """Ratio of the operator's time to the loop's."""
        return self.operator_seconds / self.floor_seconds


def list_figures(rounds: Sequence[Round]) -> list[Figure]:
    """List the figures of the rounds of one size; for the writes the worst counts."""
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
        figures = asyncio.run(_measure(cluster))
    report_figures("labels", figures)


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
    """Measure a round; before and after it the nodes are reset, and no controller runs."""
    floor = await label_bare(rig)
    await rig.fleet.reset()
    await rig.start_operator()
    ours = await label_by_operator(rig)
    await rig.clear()
    return Round(
        len(rig.fleet),
        floor.seconds,
        ours.seconds,
        ours.cpu_seconds,
        ours.node_writes,
        ours.other_writes,
    )


if __name__ == "__main__":
    run(bench)
