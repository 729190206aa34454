"""``python -m bench.simulate``: the CPU time of one simulated queue on a large cluster."""

import random
import statistics
import time

from bench.core.figure import Figure, report_figures
from bench.core.session import run, say
from bench.core.waiting import BenchError
from gpushare import names
from gpushare.analysis.placement.place import place_pods
from gpushare.api.pool import Pool
from tests.kit.values.objects import a_pool
from tests.kit.values.placements import a_member, a_placement_cluster, a_queued

_NODES, _PODS, _CARDS = 5_000, 10_000, 4
_SCHEDULES = ("cgpu", "share", "cgpu")
_SIZES = (1, 2, 3, 4, 6, 8, 10, 12, 15, 24)
_RUNS, _SEED = 3, 4
FIGURES = (Figure("cpu_s", "s of CPU", limit=5),)


def bench() -> None:
    """Measure, print the figure, and fail where it is beyond its limit."""
    choice = random.Random(_SEED)
    pools = [_build_pool(number) for number in range(len(_SCHEDULES))]
    members = (pools[number % len(pools)] for number in range(_NODES))
    nodes = [
        a_member(f"gpu-{n:05}", pool, cards=_CARDS, card=choice.choice((15, 31)), group=pool.name)
        for n, pool in enumerate(members)
    ]
    open_to_all = {names.ANNOTATION_ISOLATION: names.ISOLATION_NONE}
    queue = [
        a_queued(f"p{n}", gib=choice.choice(_SIZES), annotations=open_to_all if n % 7 == 0 else {})
        for n in range(_PODS)
    ]
    seconds = []
    for _ in range(_RUNS):
        started = time.process_time()
        placed = place_pods(a_placement_cluster(nodes, *pools), queue).placed
        seconds.append(time.process_time() - started)
        say(f"{placed} of {_PODS} pods on {_NODES} nodes in {seconds[-1]:.2f} s")
    if placed < _PODS:
        raise BenchError(f"{placed} pods run: too few for the figure to be about placing them")
    report_figures("simulate", FIGURES, {"cpu_s": statistics.median(seconds)})


def _build_pool(number: int) -> Pool:
    name = f"pool-{number}"
    selector = {"matchLabels": {"group": name}}
    return a_pool(name, _SCHEDULES[number], nodes={"selector": selector})


if __name__ == "__main__":
    run(bench)
