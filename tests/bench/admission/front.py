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
    """Pods that are created, all of them dry runs: so many at once, or so many a second."""

    pods: int
    in_flight: int = 0
    per_second: float = 0

    def __str__(self) -> str:
        return f"{self.per_second:g} a second" if self.per_second else f"{self.in_flight} in flight"


ONE, EIGHT, MANY = (Load(pods, in_flight) for pods, in_flight in ((300, 1), (1000, 8), (1000, 32)))
STEADY = Load(500, per_second=50)
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
    floor, ours = sides
    return {
        load: (await _measure(api, floor, load), await _measure(api, ours, load)) for load in loads
    }


async def count_calls_without_gpu(api: Api, ours: Side, webhook: Webhook) -> int:
    """Calls while pods are created that ask for no GPU, by both ends' counters: the larger."""
    asked, answered = await _read_durations(api, ours), webhook.count_admissions()
    await Creator(api, ours.namespace, gib=None).create_closed(_PLAIN_PODS, _PLAIN_IN_FLIGHT)
    calls = await _read_durations(api, ours) - asked
    return max(calls.calls, webhook.count_admissions() - answered)


async def _measure(api: Api, side: Side, load: Load) -> Turn:
    creator = Creator(api, side.namespace)
    before, cpu = await _read_durations(api, side), read_cpu_seconds(side.pid)
    if load.per_second:
        await creator.create_open(load.pods, load.per_second)
    else:
        await creator.create_closed(load.pods, load.in_flight)
    seconds = read_cpu_seconds(side.pid) - cpu
    return Turn(await _read_durations(api, side) - before, 1e6 * seconds / load.pods)


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
