"""``python -m bench.planner``: the cost of the controller's decisions, without an API server."""

import os
import random
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

from bench.core.figure import Figure, report_figures
from bench.core.processes import read_rss_mib
from bench.core.session import run, say
from bench.core.waiting import BenchError
from gpushare import names
from gpushare.analysis.quiet_writes import write_quietly
from gpushare.api.pool import Pool
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import Timing
from tests.kit.values.objects import (
    LATER,
    MEMORY,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)

_SIZES, _POOLS = (5_000, 50_000), 300
_PODS_PER_NODE, _MEMORY_GIB, _CARDS = 4, 15, 1
_PASSES, _EVENTS, _SEED = 3, 2_000, 4
FIGURES = (
    Figure("pass_s_5000", "s of CPU"),
    Figure("pass_s_50000", "s of CPU"),
    Figure("event_us_5000", "us of CPU", form=".0f"),
    Figure("event_us_50000", "us of CPU", form=".0f"),
    Figure("rss_mib_5000", "MiB", form=".0f"),
    Figure("rss_mib_50000", "MiB", form=".0f"),
    Figure("event_ratio", "times an event of the smaller fleet", limit=1.2),
)


@dataclass(frozen=True)
class Result:
    """Costs of a fleet of one size."""

    nodes: int
    pass_seconds: float
    """CPU time of a pass that plans every node again."""
    event_us: float
    """CPU time of a pass after one node's event."""
    rss_mib: float
    """Memory of a process with the planner and its objects, without informers and Kopf."""


def find_values(results: list[Result]) -> dict[str, float]:
    """Find each size's costs, and the ratio of the largest's event to the smallest's."""
    first, last = results[0], results[-1]
    return {
        **{f"pass_s_{each.nodes}": each.pass_seconds for each in results},
        **{f"event_us_{each.nodes}": each.event_us for each in results},
        **{f"rss_mib_{each.nodes}": each.rss_mib for each in results},
        "event_ratio": last.event_us / first.event_us,
    }


def bench() -> None:
    """Measure each size, smallest first, and fail where an event costs more with more nodes."""
    results = []
    for size in _SIZES:
        # What one size leaves behind is no part of the next one's memory.
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            results.append(alone.submit(_measure, size).result())
        say(str(results[-1]))
    report_figures("planner", FIGURES, find_values(results))


def _measure(size: int) -> Result:
    planner = Planner(Timing(), may_evict=True)
    snapshot = _build_settled(planner, size)
    passes = []
    for _ in range(_PASSES):
        started = time.process_time()
        planner.update(snapshot, None, LATER)
        passes.append(time.process_time() - started)
    nodes, choice = dict(snapshot.nodes), random.Random(_SEED)
    snapshot = replace(snapshot, nodes=nodes)
    changed = choice.sample(sorted(nodes), _EVENTS)
    started = time.process_time()
    for name in changed:
        nodes[name] = replace(nodes[name], labels={**nodes[name].labels, "bench.example/tick": "1"})
        planner.update(snapshot, {name}, LATER)
    event_us = (time.process_time() - started) / _EVENTS * 1e6
    return Result(size, statistics.median(passes), event_us, read_rss_mib(os.getpid()))


def _build_settled(planner: Planner, size: int) -> ClusterSnapshot:
    """Build `size` nodes in `_POOLS` pools, labelled and at rest, and plan them."""
    pools = tuple(_build_pool(number) for number in range(_POOLS))
    node_names = [f"gpu-{number:05}" for number in range(size)]
    nodes = tuple(
        a_node(
            name,
            {"group": pools[number % _POOLS].name, names.LABEL_SCHEDULE: "share"},
            allocatable={MEMORY: _MEMORY_GIB},
            capacity={names.RESOURCE_GPU_MEMORY: _MEMORY_GIB},
            gpu_count=_CARDS,
        )
        for number, name in enumerate(node_names)
    )
    pods = tuple(
        pod
        for name in node_names
        for pod in (
            a_plugin_pod(f"plugin-{name}", node=name),
            *(a_gpu_pod(f"{name}-{index}", node=name) for index in range(_PODS_PER_NODE)),
        )
    )
    snapshot = a_snapshot(pools=pools, nodes=nodes, pods=pods)
    decisions = planner.update(snapshot, None, LATER).decisions
    everywhere = {pool.name for pool in pools}
    snapshot, _ = write_quietly(planner, snapshot, decisions, everywhere, LATER)
    ready = sum(state.counts[NodeState.READY] for state in planner.plans_by_pool.values())
    if ready != size:
        raise BenchError(f"{ready} of {size} nodes are ready")
    return snapshot


def _build_pool(number: int) -> Pool:
    name = f"pool-{number:03}"
    return a_pool(name, "share", nodes={"selector": {"matchLabels": {"group": name}}})


if __name__ == "__main__":
    run(bench)
