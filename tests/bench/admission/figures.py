"""What came out, and the bounds that it must keep."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.admission import alone as servers
from tests.bench.admission import front as pairs
from tests.bench.admission.burst import Burst

BOUNDS = {
    "cpu_ratio_1": 1.5,
    "cpu_ratio_8": 1.5,
    "cpu_ratio_32": 1.5,
    "mean_ratio": 1.3,
    "share_5ms_gap": 2.0,
    "calls_without_gpu": 0.0,
    "failed_open": 0.0,
    "rss_mib": 80.0,
    "ready_s": 3.0,
}
"""The most that a figure may be, in the order of the summary."""
MEAN_RATIO_AT_EIGHT = 1.5
"""`mean_ratio` is that of one pod in flight; with eight of them others wait too."""


@dataclass
class Figures:
    """The results of a run; what was not measured is None or empty."""

    alone: Sequence[servers.Round] = ()
    front: Sequence[pairs.Round] = ()
    calls_without_gpu: int | None = None
    burst: Burst | None = None
    ready_seconds: Sequence[float] = ()

    def values(self) -> dict[str, float]:
        """The figures of the summary, those that were measured."""
        found: dict[str, float] = {}
        if self.alone:
            for connections in servers.CONNECTIONS:
                ratio = servers.find_cpu_ratio(self.alone, servers.OURS, connections)
                found[f"cpu_ratio_{connections}"] = ratio
        if self.front:
            found["mean_ratio"] = pairs.find_mean_ratio(self.front, pairs.ONE)
            found["share_5ms_gap"] = pairs.find_share_gap(self.front)
        if self.calls_without_gpu is not None:
            found["calls_without_gpu"] = self.calls_without_gpu
        if self.burst is not None:
            found |= {"failed_open": self.burst.failed_open, "rss_mib": self.burst.rss_mib}
        if self.ready_seconds:
            found["ready_s"] = max(self.ready_seconds)
        return found

    def summary(self) -> str:
        """One line, for machines too."""
        shown = (f"{name}={_show(name, value)}" for name, value in self.values().items())
        return " ".join(("bench-admission", *shown))

    def misses(self) -> Iterator[str]:
        """A sentence for everything that is not as it must be."""
        for name, value in self.values().items():
            if value > BOUNDS[name]:
                yield f"{name} is {_show(name, value)}, and may be {BOUNDS[name]:g} at most"
        if self.front:
            ratio = pairs.find_mean_ratio(self.front, pairs.EIGHT)
            if ratio > MEAN_RATIO_AT_EIGHT:
                yield (
                    f"the mean with eight pods in flight is {ratio:.2f} times the floor's, and may "
                    f"be {MEAN_RATIO_AT_EIGHT:g} times at most"
                )


def _show(name: str, value: float) -> str:
    if name in ("calls_without_gpu", "failed_open", "rss_mib"):
        return f"{value:.0f}"
    return f"{value:.2f}"
