"""``python -m bench.memory``: how much memory the controller needs, by the size of the fleet."""

import asyncio
from dataclasses import dataclass

from bench.core.figure import Figure, tell
from bench.core.processes import read_peak_rss_mib, read_rss_mib
from bench.core.rig import Rig, open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster

_SIZES = (100, 1000, 5000)


@dataclass(frozen=True)
class PoolCache:
    """Resident memory of the controller with its pool Ready, MiB."""

    nodes: int
    after_labelling: float
    """Of the process that labelled every node."""
    after_start: float
    """Of one that was started when everything was as it should be."""
    peak: float
    """The most that either of them ever had."""

    def figure(self) -> Figure:
        """The larger of the two, with its bound."""
        settled, most = max(self.after_labelling, self.after_start), 100 + 0.05 * self.nodes
        return Figure(f"rss_mib_{self.nodes}", settled, most=most, form=".0f")


def bench() -> None:
    """Measure at each size, smallest first, and fail where the memory is beyond its bound."""
    with own_cluster() as cluster:
        found = asyncio.run(_measure(cluster))
    tell("memory", [memory.figure() for memory in found])


async def _measure(cluster: Cluster) -> list[PoolCache]:
    found = []
    async with open_rig(cluster) as rig:
        for size in _SIZES:
            await rig.grow(size)
            await rig.fleet.add_gpu_pods()
            found.append(await _measure_size(rig))
            say(str(found[-1]))
    return found


async def _measure_size(rig: Rig) -> PoolCache:
    """Both processes one after the other; nothing of the operator is there before and after."""
    await rig.settle()
    after_labelling, peak = read_rss_mib(rig.pid), read_peak_rss_mib(rig.pid)
    await rig.stop_operator()
    await rig.start_operator()
    await rig.until_ready()
    after_start = read_rss_mib(rig.pid)
    peak = max(peak, read_peak_rss_mib(rig.pid))
    await rig.clear()
    return PoolCache(len(rig.fleet), after_labelling, after_start, peak)


if __name__ == "__main__":
    run(bench)
