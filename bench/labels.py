"""``python -m bench.labels``: a new pool labels its nodes, compared with a loop of equal writes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

import typer

from bench.core.figure import Figure, is_steady, report_figures
from bench.core.labelling import label_bare, label_by_operator, read_records
from bench.core.rig import Rig, open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster

FIGURES = (
    Figure("ratio", "times a loop that applies the same labels and records", goal=1.15),
    Figure("labels_ratio", "times a loop that applies the labels alone", limit=1.9),
    Figure("cpu_s", "s of CPU", form=".1f"),
    Figure("stray_writes", "writes to nodes more or less than one a node", limit=0, form="d"),
    Figure("other_writes", "writes", form="d"),
)


@dataclass(frozen=True)
class Round:
    """One run of the operator, and one of each loop."""

    nodes: int
    labels_seconds: float
    """Time of the loop that applies the labels alone."""
    same_seconds: float
    """Time of the loop that applies the same labels and records."""
    operator_seconds: float
    cpu_seconds: float
    """CPU time of the controller until it is idle again."""
    node_writes: int
    other_writes: int
    """Writes to the pool and its status, and Events."""

    @property
    def ratio(self) -> float:
        """Ratio of the operator's time to that of the loop of the same writes."""
        return self.operator_seconds / self.same_seconds


def find_values(rounds: Sequence[Round]) -> dict[str, float]:
    """Find the values of the rounds; for the writes the worst counts."""
    return {
        "ratio": median(each.ratio for each in rounds),
        "labels_ratio": median(each.operator_seconds / each.labels_seconds for each in rounds),
        "cpu_s": max(each.cpu_seconds for each in rounds),
        "stray_writes": max(abs(each.node_writes - each.nodes) for each in rounds),
        "other_writes": max(each.other_writes for each in rounds),
    }


def bench(nodes: Annotated[int, typer.Option(min=1, help="How many nodes.")] = 1000) -> None:
    """Measure, print each round and the figures, and fail where one is beyond its limit."""
    with own_cluster() as cluster:
        rounds = asyncio.run(_measure(cluster, nodes))
    report_figures("labels", FIGURES, find_values(rounds))


async def _measure(cluster: Cluster, nodes: int) -> Sequence[Round]:
    rounds: list[Round] = []
    async with open_rig(cluster) as rig:
        await rig.grow(nodes)
        while not is_steady([each.ratio for each in rounds]):
            rounds.append(await _measure_round(rig))
            say(f"round {len(rounds)}: {rounds[-1]}")
    return rounds


async def _measure_round(rig: Rig) -> Round:
    """Measure a round; before and after it the nodes are reset, and no controller runs."""
    await rig.start_operator()
    ours = await label_by_operator(rig)
    records = read_records(rig)
    await rig.clear()
    labels = await label_bare(rig)
    await rig.fleet.reset()
    same = await label_bare(rig, records)
    await rig.fleet.reset()
    return Round(
        len(rig.fleet),
        labels.seconds,
        same.seconds,
        ours.seconds,
        ours.cpu_seconds,
        ours.node_writes,
        ours.other_writes,
    )


if __name__ == "__main__":
    run(bench)
