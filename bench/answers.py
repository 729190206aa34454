"""``python -m bench.answers``: the time of a command's answer, compared with the bare lists that it
reads, and of the start of a process of the operator."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from statistics import median

from bench.core import lists
from bench.core.figure import Figure, is_steady, report_figures
from bench.core.rig import open_rig
from bench.core.session import own_cluster, run, say
from devcluster.cluster import Cluster
from devcluster.installation import Installation, OperatorProcess, Role
from devcluster.kubeconfig import read_own_kubeconfig
from tests.kit.cluster.operator_processes import wait_ready

_GPUSHARE = (sys.executable, "-m", "gpushare")
_NODES = 100
_ROLES: tuple[Role, ...] = ("controller", "webhook")
_LISTS = ("/api/v1/nodes", "/api/v1/pods")
FIGURES = (
    Figure("inspect_ratio", "times a program that makes its two LISTs", goal=1.5),
    Figure("help_s", "s", limit=0.3),
    Figure("controller_s", "s until it is ready", limit=1),
    Figure("webhook_s", "s until it is ready", limit=1),
)
_POLL_SECONDS = 0.01


def bench() -> None:
    """Measure, print the figures, and fail where one is beyond its limit."""
    with own_cluster() as cluster:
        asyncio.run(_fill(cluster))
        values = _answer(cluster)
    report_figures("answers", FIGURES, values)


async def _fill(cluster: Cluster) -> None:
    async with open_rig(cluster) as rig:
        await rig.grow(_NODES)
        await rig.fleet.add_gpu_pods()


def _answer(cluster: Cluster) -> dict[str, float]:
    config = cluster.folder / "bench.json"
    config.write_text(json.dumps(read_own_kubeconfig(cluster.kubeconfig)))
    floor = (sys.executable, "-m", lists.__name__, str(config), *_LISTS)
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    installation = Installation(cluster, all_in_one=False)
    # With the webhooks that its nodes and pods were made without: else none is ready.
    installation.apply()
    measures = {
        "help": partial(_run, (*_GPUSHARE, "--help"), environment),
        "lists": partial(_run, floor, environment),
        "inspect": partial(_run, (*_GPUSHARE, "inspect"), environment),
    }
    for role in _ROLES:
        process = installation.start(role, identity=role)
        wait_ready(process)
        process.stop()
        measures[role] = partial(_start, installation, process)
    seconds: dict[str, list[float]] = {name: [] for name in measures}
    ratios: list[float] = []
    while not all(map(is_steady, (ratios, *seconds.values()))):
        for name, measure in measures.items():
            seconds[name].append(measure())
        ratios.append(seconds["inspect"][-1] / seconds["lists"][-1])
    for name, found in seconds.items():
        say(f"{name}: {median(found):.3f} s ({min(found):.3f} to {max(found):.3f})")
    timed = {f"{name}_s": median(seconds[name]) for name in ("help", *_ROLES)}
    return {"inspect_ratio": median(ratios), **timed}


def _run(command: Sequence[str], environment: dict[str, str]) -> float:
    """Run a command; return the seconds."""
    started = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
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
