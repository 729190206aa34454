"""What the controller does about single nodes: the cost of an event, and the time of a repair."""

import asyncio
import random
import statistics
import time
from dataclasses import dataclass

from tests.bench.api import MERGE_PATCH, Json, for_each
from tests.bench.fleet import TICK_LABEL
from tests.bench.footprint import measure_cores, read_cpu_seconds, until_quiet
from tests.bench.nodewatch import NODES
from tests.bench.rig import LABELS, Rig, is_labelled

_EVENTS = 2000
_EVENTS_PER_SECOND = 100
_REMOVED_SHARE = 0.01
_FEWEST_REMOVALS = 20
_REMOVALS_PER_SECOND = 10
_REPAIR_WITHIN_SECONDS = 60
_MICROSECONDS = 1_000_000
_MILLISECONDS = 1_000


@dataclass(frozen=True)
class EventCost:
    """CPU time of the controller for one change of a foreign label on one node of its pool."""

    nodes: int
    microseconds: float
    idle_cores: float
    """What it uses without events; taken off."""


@dataclass(frozen=True)
class Repairs:
    """Seconds from the answer to a removal until the watch shows the label again."""

    seconds: tuple[float, ...]
    cpu_milliseconds: float
    """CPU time of who repairs, for one."""

    @property
    def p50(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.seconds, n=100, method="inclusive")[-1]


async def measure_event_cost(rig: Rig, *, events: int = _EVENTS) -> EventCost:
    """Labels that are nobody's business change all over the pool, at a steady rate."""
    await until_quiet(rig.pid)
    idle = await measure_cores(rig.pid, events / _EVENTS_PER_SECOND)
    started, cpu = time.monotonic(), read_cpu_seconds(rig.pid)
    nodes = sorted(rig.nodes.metadata)

    async def tick(index: int) -> None:
        await _sleep_until(started + index / _EVENTS_PER_SECOND)
        await _label(rig, nodes[index % len(nodes)], TICK_LABEL, str(index))

    await for_each(tick, range(events))
    await until_quiet(rig.pid)
    used = read_cpu_seconds(rig.pid) - cpu - idle * (time.monotonic() - started)
    return EventCost(len(nodes), used / events * _MICROSECONDS, idle)


async def measure_repairs(rig: Rig, choice: random.Random, *, pid: int) -> Repairs:
    """One in a hundred labels is removed, each on another node, one by one at random moments.

    `pid` is the process that puts them back.
    """
    keys = tuple(LABELS)
    count = max(_FEWEST_REMOVALS, round(len(keys) * len(rig.fleet) * _REMOVED_SHARE))
    nodes = choice.sample(sorted(rig.nodes.metadata), count)
    await until_quiet(pid)
    cpu, moment = read_cpu_seconds(pid), time.monotonic()
    removals = []
    async with asyncio.TaskGroup() as calls:
        for node in nodes:
            moment += choice.expovariate(_REMOVALS_PER_SECOND)
            await _sleep_until(moment)
            removals.append(calls.create_task(_remove(rig, node, choice.choice(keys))))
    await until_quiet(pid)
    used = read_cpu_seconds(pid) - cpu
    seconds = tuple(removal.result() for removal in removals)
    return Repairs(seconds, used / count * _MILLISECONDS)


async def _remove(rig: Rig, node: str, key: str) -> float:
    """Take a label off; seconds until the watch has shown it there again."""
    removed = await _label(rig, node, key, None)
    answered = time.monotonic()
    version = int(removed["metadata"]["resourceVersion"])

    def is_repaired(meta: Json) -> bool:
        return int(meta["resourceVersion"]) > version and is_labelled(meta)

    repaired = rig.nodes.when_all(is_repaired, [node])
    what = f"{key} is put back on {node}"
    seen = await rig.nodes.wait(repaired, what, seconds=_REPAIR_WITHIN_SECONDS)
    # The repair may be seen before the answer to the removal.
    return max(0.0, seen - answered)


async def _label(rig: Rig, node: str, key: str, value: str | None) -> Json:
    return await rig.api.call(
        "PATCH",
        f"{NODES}/{node}",
        {"metadata": {"labels": {key: value}}},
        content_type=MERGE_PATCH,
    )


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))
