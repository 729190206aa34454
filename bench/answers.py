"""``python -m bench.answers``: how soon a command answers, beside a bare Python and a bare LIST."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median

from bench.core.figure import Figure, find_ratio, tell
from bench.core.rig import open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster

_GPUSHARE = (sys.executable, "-m", "gpushare")
_NODES, _ROUNDS = 100, 15
_MOST_HELP, _MOST_INSPECT = 13.0, 7.0


def bench() -> None:
    """Measure, print a line of figures, and fail where one misses its bound."""
    with own_cluster() as cluster:
        asyncio.run(_fill(cluster))
        _answer(cluster)


async def _fill(cluster: Cluster) -> None:
    async with open_rig(cluster) as rig:
        await rig.grow(_NODES)
        await rig.fleet.add_gpu_pods()


def _answer(cluster: Cluster) -> None:
    kubectl = (str(cluster.binaries / "kubectl"), "get", "--raw")
    commands = {
        "python": ((sys.executable, "-c", "pass"),),
        "help": ((*_GPUSHARE, "--help"),),
        "list": ((*kubectl, "/api/v1/nodes"), (*kubectl, "/api/v1/pods")),
        "inspect": ((*_GPUSHARE, "inspect"),),
    }
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(_ROUNDS):
        for name, parts in commands.items():
            seconds[name].append(_measure(parts, environment))
    for name, found in seconds.items():
        say(f"{name}: {median(found):.3f} s ({min(found):.3f} to {max(found):.3f})")
    help_ratio = find_ratio(zip(seconds["python"], seconds["help"], strict=True))
    inspect_ratio = find_ratio(zip(seconds["list"], seconds["inspect"], strict=True))
    tell(
        "answers",
        [
            Figure("help", help_ratio, most=_MOST_HELP),
            Figure("inspect", inspect_ratio, most=_MOST_INSPECT),
        ],
    )


def _measure(parts: Sequence[Sequence[str]], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    for part in parts:
        subprocess.run(part, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    run(bench)
