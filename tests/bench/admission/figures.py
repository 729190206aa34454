"""What came out of the admission bench, and the bounds that it must keep."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.admission import alone as servers
from tests.bench.admission import front as pairs
from tests.bench.admission.burst import Burst
from tests.bench.figure import Better, Figure, Unit

_HANDLER = "a bare handler with a constant answer"
_CPU_BOUND = 1.5
_MEANS = ((pairs.ONE, "", 1.3), (pairs.EIGHT, "_8", 1.5))
"""With eight pods in flight others wait too."""


@dataclass
class Figures:
    """The results of a run; what was not measured is None or empty."""

    alone: Sequence[servers.Round] = ()
    front: Sequence[pairs.Round] = ()
    calls_without_gpu: int | None = None
    burst: Burst | None = None
    ready_seconds: Sequence[float] = ()

    def figures(self) -> Iterator[Figure]:
        """What was measured."""
        if self.alone:
            yield from _build_alone(self.alone)
        if self.front:
            yield from _build_front(self.front)
        if self.calls_without_gpu is not None:
            yield Figure(
                name="calls_without_gpu",
                what="calls while pods are created that ask for no GPU",
                value=self.calls_without_gpu,
                unit=Unit.COUNT,
                bound=0,
            )
        if self.burst is not None:
            yield from _build_burst(self.burst)
        if self.ready_seconds:
            yield Figure(
                name="ready_s",
                what="from the start of its process until it is ready, the slowest",
                value=max(self.ready_seconds),
                unit=Unit.SECONDS,
                bound=3,
                rounds=tuple({"operator_s": seconds} for seconds in self.ready_seconds),
            )


def _build_alone(rounds: Sequence[servers.Round]) -> Iterator[Figure]:
    for contestant, suffix, bound in (
        (servers.OURS, "", _CPU_BOUND),
        (servers.MANY_POOLS, "_many_pools", None),
    ):
        for connections in servers.CONNECTIONS:
            costs = servers.find_costs(rounds, contestant, connections)
            yield Figure(
                name=f"cpu_ratio_{connections}{suffix}",
                what=f"CPU time of a call, {contestant.pools} pools, {connections} at once",
                value=servers.find_cpu_ratio(costs),
                bound=bound,
                floor=_HANDLER,
                rounds=tuple({"floor_us": floor, "operator_us": cost} for floor, cost in costs),
            )
    costs = servers.find_costs(rounds, servers.KOPF, servers.SOME, floor=servers.OURS)
    yield Figure(
        name="kopf_cpu_ratio",
        what=f"CPU time of a call in Kopf's own way, {servers.SOME} at once",
        value=servers.find_cpu_ratio(costs),
        floor="this webhook",
        better=Better.HIGHER,
        rounds=tuple({"floor_us": ours, "kopf_us": kopf} for ours, kopf in costs),
    )


def _build_front(rounds: Sequence[pairs.Round]) -> Iterator[Figure]:
    for load, suffix, bound in _MEANS:
        yield Figure(
            name=f"mean_ratio{suffix}",
            what=f"duration of a call, as the API server sees it, {load}",
            value=pairs.find_mean_ratio(rounds, load),
            bound=bound,
            floor=_HANDLER,
            rounds=tuple(
                {"floor_ms": floor.durations.mean_ms, "operator_ms": ours.durations.mean_ms}
                for floor, ours in (each[load] for each in rounds)
            ),
        )
    if all(pairs.STEADY in each for each in rounds):
        yield Figure(
            name="share_5ms_gap",
            what=f"calls within 5 ms, percent under the floor's, {pairs.STEADY}",
            value=pairs.find_share_gap(rounds),
            unit=Unit.POINTS,
            bound=2,
            floor=_HANDLER,
        )


def _build_burst(burst: Burst) -> Iterator[Figure]:
    yield Figure(
        name="failed_open",
        what=f"pods of a burst of {burst.pods} that went through without an answer",
        value=burst.failed_open,
        unit=Unit.COUNT,
        bound=0,
    )
    yield Figure(
        name="rss_mib",
        what="memory of the webhook after the burst",
        value=burst.rss_mib,
        unit=Unit.MIB,
        bound=80,
    )
