"""``python -m bench.memory``: the memory of the processes, by the size of the fleet."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

import typer

from bench.core.figure import Figure, report_figures
from bench.core.processes import read_peak_rss_mib, read_rss_mib
from bench.core.rig import open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster

FIGURES = (
    Figure("controller_mib", "MiB", form=".0f"),
    Figure("controller_mib_1000", "MiB with 1,000 nodes", limit=95, form=".0f"),
    Figure("controller_mib_5000", "MiB with 5,000 nodes", limit=137, goal=120, form=".0f"),
    Figure("webhook_mib", "MiB", limit=76, goal=64, form=".0f"),
)
_SIZES = (1000, 5000)
"""Numbers of nodes with which the controller has a limit."""


@dataclass(frozen=True)
class Memory:
    """Resident memory in MiB with a Ready pool."""

    nodes: int
    after_labelling: float
    """Memory of the controller that labelled every node."""
    after_start: float
    """Memory of a controller that was started after all nodes were labelled."""
    peak: float
    """Peak of both controllers."""
    webhook: float
    """Memory of a webhook that was started beside the controller."""

    def find_values(self) -> dict[str, float]:
        """Find the values; the controller's is the larger of the two."""
        size = f"_{self.nodes}" if self.nodes in _SIZES else ""
        settled = max(self.after_labelling, self.after_start)
        return {f"controller_mib{size}": settled, "webhook_mib": self.webhook}


def bench(
    nodes: Annotated[
        int, typer.Option(min=1, help="How many nodes; 1,000 and 5,000 have a limit.")
    ] = 1000,
) -> None:
    """Measure, print the figures, and fail where one is beyond its limit."""
    with own_cluster() as cluster:
        memory = asyncio.run(_measure(cluster, nodes))
    say(str(memory))
    report_figures("memory", FIGURES, memory.find_values())


async def _measure(cluster: Cluster, nodes: int) -> Memory:
    """Measure both controllers one after the other, then a webhook beside the second."""
    async with open_rig(cluster) as rig:
        await rig.grow(nodes)
        await rig.fleet.add_gpu_pods()
        await rig.settle()
        after_labelling, peak = read_rss_mib(rig.pid), read_peak_rss_mib(rig.pid)
        await rig.stop_operator()
        await rig.start_operator()
        await rig.until_ready()
        after_start = read_rss_mib(rig.pid)
        peak = max(peak, read_peak_rss_mib(rig.pid))
        return Memory(nodes, after_labelling, after_start, peak, await rig.measure_webhook())


if __name__ == "__main__":
    run(bench)
