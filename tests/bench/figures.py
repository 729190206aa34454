"""What came out of the label bench, the bounds that it must keep, and how both are shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.event import EventCost, Repairs
from tests.bench.figure import Figure, Unit
from tests.bench.memory import Memory
from tests.bench.ratio import Round, find_ratio


@dataclass
class Figures:
    """The results of a run; what was not measured is None or empty."""

    rounds_middle: Sequence[Round] = ()
    rounds_all: Sequence[Round] = ()
    event_few: EventCost | None = None
    event_all: EventCost | None = None
    repairs: Repairs | None = None
    bare_repairs: Repairs | None = None
    """Those of a bare watcher."""
    writes_at_rest: int | None = None
    memory_middle: Memory | None = None
    memory_all: Memory | None = None

    def figures(self) -> Iterator[Figure]:
        """What was measured."""
        yield from self._convergence()
        yield from self._events()
        yield from self._repairs()
        if self.writes_at_rest is not None:
            yield Figure(
                name="writes_at_rest",
                what="writes of the operator while nothing changes, its Lease aside",
                value=self.writes_at_rest,
                unit=Unit.COUNT,
                bound=0,
            )
        if self.memory_middle is not None:
            yield _build_memory("rss_mib_1k", self.memory_middle, bound=150)
        if self.memory_all is not None:
            yield _build_memory("rss_mib_5k", self.memory_all, bound=350)

    def _convergence(self) -> Iterator[Figure]:
        # At fewer nodes what is done once a pool weighs more: no bound of its own.
        for name, rounds, bound in (
            ("ratio_1k", self.rounds_middle, None),
            ("ratio_5k", self.rounds_all, 1.3),
        ):
            if rounds:
                yield Figure(
                    name=name,
                    what=f"from a pool's creation until {rounds[0].nodes:,} nodes are labelled",
                    value=find_ratio(rounds),
                    bound=bound,
                    floor="a bare loop of the same applies",
                    rounds=tuple(
                        {"floor_s": each.floor_seconds, "operator_s": each.operator_seconds}
                        for each in rounds
                    ),
                )
        if rounds := (*self.rounds_middle, *self.rounds_all):
            yield Figure(
                name="stray_writes",
                what="writes to nodes more or fewer than one each, in the worst round",
                value=max(each.stray_writes for each in rounds),
                unit=Unit.COUNT,
                bound=0,
                rounds=tuple(
                    {"nodes": each.nodes, "audited": each.audited, "counted": each.counted}
                    for each in rounds
                ),
            )

    def _events(self) -> Iterator[Figure]:
        few, all_nodes = self.event_few, self.event_all
        if few is not None and all_nodes is not None:
            yield Figure(
                name="event_cost_ratio",
                what=f"CPU time for the event of one node, at {all_nodes.nodes:,} nodes",
                value=all_nodes.microseconds / few.microseconds,
                bound=2,
                floor=f"the same at {few.nodes:,} nodes",
                rounds=({"floor_us": few.microseconds, "operator_us": all_nodes.microseconds},),
            )

    def _repairs(self) -> Iterator[Figure]:
        if self.repairs is None:
            return
        if self.bare_repairs is not None:
            yield Figure(
                name="repair_ratio",
                what="from a label's removal until it is there again, median",
                value=self.repairs.p50 / self.bare_repairs.p50,
                floor="a bare watcher that applies",
                rounds=({"floor_s": self.bare_repairs.p50, "operator_s": self.repairs.p50},),
            )
        rounds = tuple({"operator_s": seconds} for seconds in self.repairs.seconds)
        for name, value, bound in (
            ("repair_p50_s", self.repairs.p50, None),
            ("repair_p99_s", self.repairs.p99, 2),
        ):
            yield Figure(
                name=name,
                what="from a label's removal until it is there again",
                value=value,
                unit=Unit.SECONDS,
                bound=bound,
                rounds=rounds,
            )


def _build_memory(name: str, memory: Memory, bound: float) -> Figure:
    return Figure(
        name=name,
        what=f"memory of the controller at {memory.nodes:,} nodes and {memory.pods:,} pods",
        value=memory.settled,
        unit=Unit.MIB,
        bound=bound,
    )
