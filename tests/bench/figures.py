"""What came out, the bounds that it must keep, and how both are shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.event import EventCost, Repairs
from tests.bench.memory import Memory
from tests.bench.ratio import Round, find_ratio

BOUNDS = {
    "ratio": 1.3,
    "event_cost_ratio": 2.0,
    "repair_p99_s": 2.0,
    "writes_at_rest": 0.0,
    "rss_mib_1k": 150.0,
    "rss_mib_5k": 350.0,
}
"""The most that a figure may be."""


@dataclass
class Figures:
    """The results of a run; what was not measured is None or empty."""

    nodes: int
    rounds: Sequence[Round] = ()
    event_few: EventCost | None = None
    event_all: EventCost | None = None
    repairs: Repairs | None = None
    writes_at_rest: int | None = None
    memory_middle: Memory | None = None
    memory_all: Memory | None = None

    def values(self) -> dict[str, float]:
        """The figures of the summary, those that were measured."""
        found: dict[str, float] = {}
        if self.rounds:
            found["ratio"] = find_ratio(self.rounds)
        if self.event_few is not None and self.event_all is not None:
            found["event_cost_ratio"] = self.event_all.microseconds / self.event_few.microseconds
        if self.repairs is not None:
            found |= {"repair_p50_s": self.repairs.p50, "repair_p99_s": self.repairs.p99}
        if self.writes_at_rest is not None:
            found["writes_at_rest"] = self.writes_at_rest
        if self.memory_middle is not None:
            found["rss_mib_1k"] = self.memory_middle.settled
        if self.memory_all is not None:
            found["rss_mib_5k"] = self.memory_all.settled
        return found

    def summary(self) -> str:
        """One line, for machines too."""
        shown = (f"{name}={_show(name, value)}" for name, value in self.values().items())
        return " ".join(("bench-labels", *shown))

    def misses(self) -> Iterator[str]:
        """A sentence for everything that is not as it must be."""
        for number, each in enumerate(self.rounds, start=1):
            if not each.audited == each.counted == self.nodes:
                yield (
                    f"round {number}: {self.nodes} nodes changed by {each.audited} writes in the "
                    f"audit log and {each.counted} by the API server's counter; each node takes one"
                )
        values = self.values()
        for name, bound in BOUNDS.items():
            if name in values and values[name] > bound:
                yield f"{name} is {_show(name, values[name])}, and may be {bound:g} at most"


def show_round(number: int, each: Round) -> str:
    """A line of the table of rounds."""
    return (
        f"round {number}: loop {each.floor_seconds:6.2f} s   operator "
        f"{each.operator_seconds:6.2f} s   ratio {each.ratio:5.2f}   writes to nodes: "
        f"{each.audited} in the audit log, {each.counted} applies counted; others: {each.other}"
    )


def show_event_cost(cost: EventCost) -> str:
    return (
        f"event at {cost.nodes} nodes: {cost.microseconds:.0f} us of CPU "
        f"(idle: {cost.idle_cores:.1%} of a core)"
    )


def show_repairs(repairs: Repairs) -> str:
    return (
        f"{len(repairs.seconds)} labels removed: repaired within p50 {repairs.p50:.3f} s, "
        f"p99 {repairs.p99:.3f} s, at most {max(repairs.seconds):.3f} s; "
        f"{repairs.cpu_milliseconds:.1f} ms of CPU each"
    )


def show_memory(memory: Memory) -> str:
    return (
        f"memory at {memory.nodes} nodes and {memory.pods} pods: "
        f"{memory.after_labelling:.0f} MiB after labelling, {memory.after_start:.0f} MiB started "
        f"anew, peak {memory.peak:.0f} MiB"
    )


def _show(name: str, value: float) -> str:
    if name.startswith(("rss", "writes")):
        return f"{value:.0f}"
    return f"{value:.3f}" if name.endswith("_s") else f"{value:.2f}"
