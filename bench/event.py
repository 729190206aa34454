"""``python -m bench.event``: the latency and the cost of the controller's reaction to one node."""

import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import typer

from bench.core import watchloop
from bench.core.api import MERGE_PATCH, Json, for_each
from bench.core.figure import Figure, find_ratio, report_figures
from bench.core.fleet import READ_LABEL, TICK_LABEL
from bench.core.nodewatch import NODES
from bench.core.processes import measure_cores, read_cpu_seconds, running, until_quiet
from bench.core.rig import LABELS, Rig, is_labelled, open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster
from gpushare.kube.events import COUNT_SECONDS
from tests.kit.cluster.operator_processes import fetch

_FEW = 100
_EVENTS = 2000
_EVENTS_PER_SECOND = 100
_REMOVALS = 100
_REMOVALS_PER_SECOND = 10
_REPAIR_WITHIN_SECONDS = 60
_SCRAPE_PAUSE_SECONDS = 0.1
_WRITTEN_SECONDS = 2.0
_REST_SECONDS = 60
_SEED = 4


FIGURES = (
    Figure("event_ratio", "times the watch loop", goal=3),
    Figure("foreign_ratio", "times the watch loop", goal=3),
    Figure("unread_ratio", "times the watch loop", goal=2),
    Figure("event_cost_ratio", "times the cost with 100 nodes", limit=2),
    Figure("event_us", "us of CPU", form=".0f"),
    Figure("rest_p50_s", "s", form=".3f"),
    Figure("rest_p99_s", "s", limit=2, form=".3f"),
    Figure("scraped_p50_s", "s", form=".3f"),
    Figure("scraped_p99_s", "s", limit=2, form=".3f"),
    Figure("scraped_ratio", "times the time at rest"),
    Figure("writes_at_rest", "writes", limit=0, form="d"),
    Figure("idle_cores", "cores", form=".4f"),
)


class Cost(NamedTuple):
    """CPU time for one change of one node."""

    floor_us: float
    """That of a bare loop that watches the nodes at the same time."""
    our_us: float

    @property
    def ratio(self) -> float:
        return self.our_us / self.floor_us


@dataclass(frozen=True)
class Result:
    """Results of a run."""

    few: Cost
    every: Cost
    """A changed label in the pool's selector, so that the node is planned again, with all nodes;
    the field before is with few nodes."""
    foreign: Cost
    """A changed label that no decision reads."""
    unread: Cost
    """A changed annotation that nobody reads, so that the record is equal."""
    at_rest: Sequence[Sequence[float]]
    """Seconds until a label was restored, by round."""
    scraped: Sequence[Sequence[float]]
    writes_at_rest: int
    idle_cores: float

    def find_values(self) -> dict[str, float]:
        medians = [
            (statistics.median(rest), statistics.median(scraped))
            for rest, scraped in zip(self.at_rest, self.scraped, strict=True)
        ]
        return {
            "event_ratio": self.every.ratio,
            "foreign_ratio": self.foreign.ratio,
            "unread_ratio": self.unread.ratio,
            "event_cost_ratio": self.every.our_us / self.few.our_us,
            "event_us": self.every.our_us,
            **_find_times("rest", self.at_rest),
            **_find_times("scraped", self.scraped),
            "scraped_ratio": find_ratio(medians),
            "writes_at_rest": self.writes_at_rest,
            "idle_cores": self.idle_cores,
        }


def _find_times(when: str, rounds: Sequence[Sequence[float]]) -> dict[str, float]:
    seconds = [each for found in rounds for each in found]
    p99 = statistics.quantiles(seconds, n=100, method="inclusive")[-1]
    return {f"{when}_p50_s": statistics.median(seconds), f"{when}_p99_s": p99}


def bench(
    nodes: Annotated[int, typer.Option(min=50, help="How many nodes at the end.")] = 1000,
    rounds: Annotated[
        int, typer.Option(min=1, max=25, help="Rounds at rest and under scrapes.")
    ] = 3,
) -> None:
    """Measure, print the figures, and fail where one is beyond its limit."""
    with own_cluster() as cluster:
        result = asyncio.run(_measure(cluster, nodes, rounds))
    report_figures("event", FIGURES, result.find_values())


async def _measure(cluster: Cluster, nodes: int, rounds: int) -> Result:
    async with open_rig(cluster) as rig:
        await rig.grow(min(_FEW, nodes))
        await rig.settle()
        few = await _measure_cost(rig, "labels", READ_LABEL)
        await rig.clear()
        await rig.grow(nodes)
        await rig.settle()
        every = await _measure_cost(rig, "labels", READ_LABEL)
        foreign = await _measure_cost(rig, "labels", TICK_LABEL)
        unread = await _measure_cost(rig, "annotations", TICK_LABEL)
        choice, at_rest, scraped = random.Random(_SEED), [], []
        # Each node once: who takes a label off for the third time is a rival and given way to.
        shuffled = choice.sample(sorted(rig.nodes.metadata), nodes)
        each = min(_REMOVALS, nodes // (2 * rounds))
        for number in range(rounds):
            first, then = 2 * number * each, (2 * number + 1) * each
            at_rest.append(await _measure_repairs(rig, choice, shuffled[first:then]))
            async with _scraping(rig):
                scraped.append(await _measure_repairs(rig, choice, shuffled[then : then + each]))
            both = (statistics.median(seconds) for seconds in (at_rest[-1], scraped[-1]))
            say("p50 {:.3f} s at rest, {:.3f} s while scraped".format(*both))
        # How often an Event came is written later. Then nothing can be waited for: that nothing
        # happens is what is measured.
        await asyncio.sleep(COUNT_SECONDS + _WRITTEN_SECONDS)
        rig.audit.read_our_writes()
        idle = await measure_cores(rig.pid, _REST_SECONDS)
        writes = len(rig.audit.read_our_writes())
        return Result(few, every, foreign, unread, at_rest, scraped, writes, idle)


async def _measure_cost(rig: Rig, part: str, key: str) -> Cost:
    """Measure the cost of a changed value under `key` on one node, over the pool; `part` is
    `labels` or `annotations`."""
    async with running(watchloop.__name__, str(rig.installation.cluster.kubeconfig)) as floor:
        await floor.listen()
        pids = floor.pid, rig.pid
        for pid in pids:
            await until_quiet(pid)
        idle_seconds = _EVENTS / _EVENTS_PER_SECOND
        idle = await asyncio.gather(*(measure_cores(pid, idle_seconds) for pid in pids))
        started, before = time.monotonic(), [read_cpu_seconds(pid) for pid in pids]
        nodes = sorted(rig.nodes.metadata)

        async def tick(index: int) -> None:
            await _sleep_until(started + index / _EVENTS_PER_SECOND)
            await _write(rig, nodes[index % len(nodes)], part, key, str(index))

        await for_each(tick, range(_EVENTS))
        for pid in pids:
            await until_quiet(pid)
        lasted = time.monotonic() - started
        used = [
            read_cpu_seconds(pid) - cpu - cores * lasted
            for pid, cpu, cores in zip(pids, before, idle, strict=True)
        ]
    cost = Cost(*(1e6 * seconds / _EVENTS for seconds in used))
    say(f"{key} in {part} of {len(nodes)} nodes: {cost} (idle: {idle[1]:.2%} of a core)")
    return cost


async def _measure_repairs(
    rig: Rig, choice: random.Random, nodes: Sequence[str]
) -> Sequence[float]:
    """Remove a label from each node, one by one at random moments; return the seconds."""
    moment, removals = time.monotonic(), []
    async with asyncio.TaskGroup() as calls:
        for node in nodes:
            moment += choice.expovariate(_REMOVALS_PER_SECOND)
            await _sleep_until(moment)
            removals.append(calls.create_task(_remove(rig, node, choice.choice(tuple(LABELS)))))
    return [removal.result() for removal in removals]


@contextlib.asynccontextmanager
async def _scraping(rig: Rig) -> AsyncIterator[None]:
    """Read /metrics within the block, with short pauses."""

    async def scrape() -> None:
        assert rig.process is not None
        while True:
            await asyncio.to_thread(fetch, rig.process, "/metrics")
            await asyncio.sleep(_SCRAPE_PAUSE_SECONDS)

    scraper = asyncio.create_task(scrape())
    try:
        yield
        if scraper.done():
            scraper.result()
    finally:
        scraper.cancel()


async def _remove(rig: Rig, node: str, key: str) -> float:
    """Remove a label; return the seconds from the answer until the watch shows it again."""
    removed = await _write(rig, node, "labels", key, None)
    answered = time.monotonic()
    version = int(removed["metadata"]["resourceVersion"])

    def is_repaired(meta: Json) -> bool:
        return int(meta["resourceVersion"]) > version and is_labelled(meta)

    repaired = rig.nodes.when_all(is_repaired, [node])
    what = f"{key} is put back on {node}"
    shown_at = await rig.nodes.wait(repaired, what, seconds=_REPAIR_WITHIN_SECONDS)
    # The repair may be seen before the answer to the removal.
    return max(0.0, shown_at - answered)


async def _write(rig: Rig, node: str, part: str, key: str, value: str | None) -> Json:
    body = {"metadata": {part: {key: value}}}
    return await rig.api.call("PATCH", f"{NODES}/{node}", body, content_type=MERGE_PATCH)


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


if __name__ == "__main__":
    run(bench)
