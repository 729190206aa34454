"""How much memory the controller needs."""

from dataclasses import dataclass

from tests.bench.footprint import read_peak_rss_mib, read_rss_mib
from tests.bench.rig import Rig


@dataclass(frozen=True)
class Memory:
    """Resident memory of the controller with its pool Ready, MiB."""

    nodes: int
    pods: int
    after_labelling: float
    """Of the process that labelled every node."""
    after_start: float
    """Of one that was started when everything was as it should be."""
    peak: float
    """The most that either of them ever had."""

    @property
    def settled(self) -> float:
        return max(self.after_labelling, self.after_start)


async def measure_memory(rig: Rig) -> Memory:
    """Both processes one after the other; nothing of the operator is there before and after."""
    await rig.settle()
    after_labelling, peak = read_rss_mib(rig.pid), read_peak_rss_mib(rig.pid)
    await rig.stop_operator()
    await rig.start_operator()
    await rig.until_ready()
    after_start = read_rss_mib(rig.pid)
    peak = max(peak, read_peak_rss_mib(rig.pid))
    await rig.clear()
    return Memory(len(rig.fleet), rig.fleet.pods, after_labelling, after_start, peak)
