"""``python -m bench.event``: the latency and the cost of the controller's reaction to one node."""

import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from bench.core.api import MERGE_PATCH, Json, for_each
from bench.core.figure import Figure, find_ratio, report_figures
from bench.core.fleet import READ_LABEL, TICK_LABEL
from bench.core.nodewatch import NODES
from bench.core.processes import measure_cores, read_cpu_seconds, until_quiet
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


@dataclass(frozen=True)
class Result:
    """Results of a run."""

    few_us: float
    all_us: float
    """CPU time for a changed label in the pool's selector, so that the node is planned again, with
    all nodes; the field before is with few nodes."""
    foreign_us: float
    """CPU time for a changed label that no decision reads."""
    unread_us: float
    """CPU time for a changed annotation that nobody reads, so that the record is equal."""
    at_rest: Sequence[Sequence[float]]
    """Seconds until a label was restored, by round."""
    scraped: Sequence[Sequence[float]]
    writes_at_rest: int
    idle_cores: float

    def figures(self) -> list[Figure]:
        medians = [
            (statistics.median(rest), statistics.median(scraped))
            for rest, scraped in zip(self.at_rest, self.scraped, strict=True)
        ]
        return [
            Figure("event_us", self.all_us, most=400, form=".0f"),
            Figure("foreign_us", self.foreign_us, form=".0f"),
            Figure("unread_us", self.unread_us, most=150, form=".0f"),
            Figure("event_cost_ratio", self.all_us / self.few_us, most=2),
            *_build_times("rest", self.at_rest),
            *_build_times("scraped", self.scraped),
            Figure("scraped_ratio", find_ratio(medians)),
            Figure("writes_at_rest", self.writes_at_rest, most=0, form="d"),
            Figure("idle_cores", self.idle_cores, form=".4f"),
        ]


def _build_times(when: str, rounds: Sequence[Sequence[float]]) -> list[Figure]:
    seconds = [each for found in rounds for each in found]
    p99 = statistics.quantiles(seconds, n=100, method="inclusive")[-1]
    return [
        Figure(f"{when}_p50_s", statistics.median(seconds), form=".3f"),
        Figure(f"{when}_p99_s", p99, most=2, form=".3f"),
    ]


def bench(
    nodes: Annotated[int, typer.Option(min=50, help="How many nodes at the end.")] = 5000,
    rounds: Annotated[
        int, typer.Option(min=1, max=25, help="Rounds at rest and under scrapes.")
    ] = 3,
) -> None:
    """Measure, print a line of figures, and fail where one misses its bound."""
    with own_cluster() as cluster:
        result = asyncio.run(_measure(cluster, nodes, rounds))
    report_figures("event", result.figures())


async def _measure(cluster: Cluster, nodes: int, rounds: int) -> Result:
    async with open_rig(cluster) as rig:
        await rig.grow(min(_FEW, nodes))
        await rig.settle()
        few_us = await _measure_cost(rig, "labels", READ_LABEL)
        await rig.clear()
        await rig.grow(nodes)
        await rig.settle()
        all_us = await _measure_cost(rig, "labels", READ_LABEL)
        foreign_us = await _measure_cost(rig, "labels", TICK_LABEL)
        unread_us = await _measure_cost(rig, "annotations", TICK_LABEL)
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
        return Result(few_us, all_us, foreign_us, unread_us, at_rest, scraped, writes, idle)


async def _measure_cost(rig: Rig, part: str, key: str) -> float:
    """Measure the microseconds of CPU for a changed value under `key` on one node, over the pool;
    `part` is `labels` or `annotations`."""
    await until_quiet(rig.pid)
    idle = await measure_cores(rig.pid, _EVENTS / _EVENTS_PER_SECOND)
    started, cpu = time.monotonic(), read_cpu_seconds(rig.pid)
    nodes = sorted(rig.nodes.metadata)

    async def tick(index: int) -> None:
        await _sleep_until(started + index / _EVENTS_PER_SECOND)
        await _write(rig, nodes[index % len(nodes)], part, key, str(index))

    await for_each(tick, range(_EVENTS))
    await until_quiet(rig.pid)
    used = read_cpu_seconds(rig.pid) - cpu - idle * (time.monotonic() - started)
    microseconds = 1e6 * used / _EVENTS
    say(f"{key} in {part} of {len(nodes)} nodes: {microseconds:.0f} us of CPU (idle: {idle:.2%})")
    return microseconds


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
