"""``python -m bench.memory``: the memory of the processes, by the size of the fleet."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from bench.core.figure import Figure, report_figures
from bench.core.processes import read_peak_rss_mib, read_rss_mib
from bench.core.rig import Rig, open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster

_SIZES = (100, 1000, 5000)
_MOST_MIB = {"controller": 120, "webhook": 64}
"""Limits at the largest of these sizes."""


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

    def list_figures(self) -> Iterator[Figure]:
        """List the figures; the controller's is the larger of the two."""
        settled = max(self.after_labelling, self.after_start)
        for role, found in (("controller", settled), ("webhook", self.webhook)):
            most = _MOST_MIB[role] if self.nodes == _SIZES[-1] else None
            yield Figure(f"{role}_mib_{self.nodes}", found, most=most, form=".0f")


def bench() -> None:
    """Measure at each size, smallest first, and fail where the last is beyond its bound."""
    with own_cluster() as cluster:
        results = asyncio.run(_measure(cluster))
    report_figures("memory", [each for memory in results for each in memory.list_figures()])


async def _measure(cluster: Cluster) -> list[Memory]:
    results = []
    async with open_rig(cluster) as rig:
        for size in _SIZES:
            await rig.grow(size)
            await rig.fleet.add_gpu_pods()
            results.append(await _measure_size(rig))
            say(str(results[-1]))
    return results


async def _measure_size(rig: Rig) -> Memory:
    """Measure both controllers one after the other; before and after it none runs."""
    await rig.settle()
    after_labelling, peak = read_rss_mib(rig.pid), read_peak_rss_mib(rig.pid)
    await rig.stop_operator()
    await rig.start_operator()
    await rig.until_ready()
    after_start = read_rss_mib(rig.pid)
    peak = max(peak, read_peak_rss_mib(rig.pid))
    webhook_mib = await rig.measure_webhook()
    await rig.clear()
    return Memory(len(rig.fleet), after_labelling, after_start, peak, webhook_mib)


if __name__ == "__main__":
    run(bench)
