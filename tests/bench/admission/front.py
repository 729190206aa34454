"""In front of the real API server: what it measures of our webhook beside the floor's, in turns."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.bench.admission.creation import Creator
from tests.bench.admission.histogram import Durations, parse_durations
from tests.bench.admission.pairing import Side
from tests.bench.admission.webhook import Webhook
from tests.bench.api import Api
from tests.bench.footprint import read_cpu_seconds

_WARM_PODS, _WARM_IN_FLIGHT = 200, 32
_PLAIN_PODS, _PLAIN_IN_FLIGHT = 500, 8


@dataclass(frozen=True)
class Load:
    """Pods that are created, all of them dry runs: so many at once, or so many a second.

    In slices: a machine's speed changes within seconds, by more than what is measured.
    """

    slices: int
    in_flight: int = 0
    per_second: float = 0
    slice_pods: int = 100
    """On end of one webhook."""

    @property
    def pods(self) -> int:
        return self.slices * self.slice_pods

    def __str__(self) -> str:
        return f"{self.per_second:g} a second" if self.per_second else f"{self.in_flight} in flight"


ONE, EIGHT, MANY = (Load(10, in_flight) for in_flight in (1, 8, 32))
STEADY = Load(20, per_second=50, slice_pods=50)
LOADS = (ONE, EIGHT, MANY, STEADY)


@dataclass(frozen=True)
class Turn:
    """One webhook under one load."""

    durations: Durations
    microseconds: float
    """CPU time of the webhook's process for each call."""


Round = Mapping[Load, tuple[Turn, Turn]]
"""The floor's turn and ours."""


def find_mean_ratio(rounds: Sequence[Round], load: Load) -> float:
    """Our mean by the floor's of the same round; the median of the rounds."""
    pairs = (each[load] for each in rounds)
    return statistics.median(
        ours.durations.mean_ms / floor.durations.mean_ms for floor, ours in pairs
    )


def find_share_gap(rounds: Sequence[Round]) -> float:
    """Points that our share within 5 ms is under the floor's; the median of the rounds."""
    pairs = (each[STEADY] for each in rounds)
    return statistics.median(
        floor.durations.share_5ms - ours.durations.share_5ms for floor, ours in pairs
    )


async def measure_round(api: Api, sides: tuple[Side, Side], loads: Sequence[Load] = LOADS) -> Round:
    """One turn of both under each load."""
    for side in sides:
        await Creator(api, side.namespace).create_closed(_WARM_PODS, _WARM_IN_FLIGHT)
    return {load: await _take_turns(api, sides, load) for load in loads}


async def count_calls_without_gpu(api: Api, ours: Side, webhook: Webhook) -> int:
    """Calls while pods are created that ask for no GPU, by both ends' counters: the larger."""
    asked, answered = await _read_durations(api, ours), webhook.count_admissions()
    await Creator(api, ours.namespace, gib=None).create_closed(_PLAIN_PODS, _PLAIN_IN_FLIGHT)
    calls = await _read_durations(api, ours) - asked
    return max(calls.calls, webhook.count_admissions() - answered)


async def _take_turns(api: Api, sides: tuple[Side, Side], load: Load) -> tuple[Turn, Turn]:
    """The slices of the load, one of each side after another."""
    durations, seconds = [Durations(), Durations()], [0.0, 0.0]
    for _ in range(load.slices):
        for number, side in enumerate(sides):
            before, cpu = await _read_durations(api, side), read_cpu_seconds(side.pid)
            await _create(Creator(api, side.namespace), load)
            seconds[number] += read_cpu_seconds(side.pid) - cpu
            durations[number] += await _read_durations(api, side) - before
    floor, ours = (
        Turn(each, 1e6 * cpu / load.pods) for each, cpu in zip(durations, seconds, strict=True)
    )
    return floor, ours


async def _create(creator: Creator, load: Load) -> None:
    if load.per_second:
        await creator.create_open(load.slice_pods, load.per_second)
    else:
        await creator.create_closed(load.slice_pods, load.in_flight)


async def _read_durations(api: Api, side: Side) -> Durations:
    return parse_durations(await api.text("metrics"), side.webhooks)


def show_round(number: int, results: Round) -> str:
    """The table of a round."""
    lines = [f"round {number}:"]
    for load, turns in results.items():
        shown = (
            f"{name} {turn.durations.mean_ms:6.2f} ms, {turn.durations.share_5ms:5.1f} % within "
            f"5 ms, {turn.microseconds:4.0f} us of CPU   "
            for name, turn in zip(("floor", "ours"), turns, strict=True)
        )
        floor, ours = turns
        ratio = ours.durations.mean_ms / floor.durations.mean_ms
        lines.append(f"    {load!s:12} {''.join(shown)}ratio {ratio:5.2f}")
    return "\n".join(lines)
