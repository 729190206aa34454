"""``python -m bench.answers``: the time of a command's answer, compared with a bare LIST, and of
the start of a process of the operator."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from statistics import median

from bench.core.figure import Figure, is_steady, report_figures
from bench.core.rig import open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster
from devcluster.installation import Installation, OperatorProcess, Role
from tests.kit.cluster.operator_processes import wait_ready

_GPUSHARE = (sys.executable, "-m", "gpushare")
_NODES = 100
_ROLES: tuple[Role, ...] = ("controller", "webhook")
_MOST_SECONDS = {"help": 0.3, "controller": 1.0, "webhook": 1.0}
_MOST_INSPECT = 2.0
_POLL_SECONDS = 0.01


def bench() -> None:
    """Measure, print a line of figures, and fail where one misses its bound."""
    with own_cluster() as cluster:
        asyncio.run(_fill(cluster))
        figures = _answer(cluster)
    report_figures("answers", figures)


async def _fill(cluster: Cluster) -> None:
    async with open_rig(cluster) as rig:
        await rig.grow(_NODES)
        await rig.fleet.add_gpu_pods()


def _answer(cluster: Cluster) -> list[Figure]:
    kubectl = (str(cluster.binaries / "kubectl"), "get", "--raw")
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    installation = Installation(cluster, all_in_one=False)
    # With the webhooks that its nodes and pods were made without: else none is ready.
    installation.apply()
    measures = {
        "help": partial(_run, [(*_GPUSHARE, "--help")], environment),
        "list": partial(
            _run, [(*kubectl, "/api/v1/nodes"), (*kubectl, "/api/v1/pods")], environment
        ),
        "inspect": partial(_run, [(*_GPUSHARE, "inspect")], environment),
    }
    for role in _ROLES:
        process = installation.start(role, identity=role)
        wait_ready(process)
        process.stop()
        measures[role] = partial(_start, installation, process)
    seconds: dict[str, list[float]] = {name: [] for name in measures}
    ratios: list[float] = []
    while not all(map(is_steady, (ratios, *(seconds[name] for name in _MOST_SECONDS)))):
        for name, measure in measures.items():
            seconds[name].append(measure())
        ratios.append(seconds["inspect"][-1] / seconds["list"][-1])
    for name, found in seconds.items():
        say(f"{name}: {median(found):.3f} s ({min(found):.3f} to {max(found):.3f})")
    return [
        *(Figure(f"{n}_s", median(seconds[n]), most=most) for n, most in _MOST_SECONDS.items()),
        Figure("inspect_ratio", median(ratios), most=_MOST_INSPECT),
    ]


def _run(parts: Sequence[Sequence[str]], environment: dict[str, str]) -> float:
    """Run commands one after the other; return the seconds."""
    started = time.perf_counter()
    for part in parts:
        subprocess.run(part, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def _start(installation: Installation, ended: OperatorProcess) -> float:
    """Restart an ended process; return the seconds until it is ready. A controller may stand by."""
    started = time.perf_counter()
    process = installation.restart(ended)
    wait_ready(process, poll_seconds=_POLL_SECONDS)
    seconds = time.perf_counter() - started
    process.stop()
    return seconds


if __name__ == "__main__":
    run(bench)
