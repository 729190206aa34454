"""``python -m bench.usage``: how soon `gpushare usage` answers about 10,000 pods."""

import json
import statistics
import tempfile
import time
from pathlib import Path

from bench.core.figure import Figure, report_figures
from bench.core.session import own_cluster, run, say
from bench.core.waiting import BenchError
from devcluster.prometheus_server import recorded_prometheus
from devcluster.recordings import RecordedSeries, build_recording, steady
from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.cluster.snapshot_file import build_snapshot
from tests.kit.cluster.command_line import start_command
from tests.kit.values.manifests import build_bound_pod, build_node
from tests.kit.values.objects import NOW

_PODS, _PODS_PER_NODE, _NAMESPACES = 10_000, 10, 100
_SECONDS, _STEP_SECONDS = 7_200, 60
_RUNS = 3
FIGURES = (Figure("seconds", "s", limit=3.2),)


def bench() -> None:
    """Measure, print the figure, and fail where it is beyond its limit."""
    names = [(f"team-{n % _NAMESPACES}", f"p{n}") for n in range(_PODS)]
    series = [
        RecordedSeries(
            "vGPU_device_memory_usage_in_bytes",
            {"podnamespace": namespace, "podname": pod, "ctrname": "main"},
            steady(2**30),
        )
        for namespace, pod in names
    ]
    recording = build_recording(series, end=time.time(), seconds=_SECONDS, step=_STEP_SECONDS)
    with tempfile.TemporaryDirectory() as folder, own_cluster() as cluster:
        snapshot = Path(folder) / "cluster.json"
        snapshot.write_bytes(_build_cluster(names))
        with recorded_prometheus(cluster, recording) as prometheus:
            source = ("--prometheus", prometheus.url, "--snapshot", str(snapshot))
            seconds = [_measure(*source) for _ in range(_RUNS)]
    report_figures("usage", FIGURES, {"seconds": statistics.median(seconds)})


def _build_cluster(names: list[tuple[str, str]]) -> bytes:
    nodes = [build_node(f"n{n}", gpus=4, total=60) for n in range(_PODS // _PODS_PER_NODE)]
    pods = [
        build_bound_pod(pod, f"n{n // _PODS_PER_NODE}", 4, namespace=namespace)
        for n, (namespace, pod) in enumerate(names)
    ]
    return build_snapshot(Cluster(NOW, nodes=tuple(nodes), pods=tuple(pods)))


def _measure(*source: str) -> float:
    started = time.monotonic()
    ended = start_command("usage", *source, "--window", "2h", "--min-data", "1h", "-o", "json")
    seconds = time.monotonic() - started
    known = sum(each["usedGib"]["peak"] is not None for each in json.loads(ended.out)["workloads"])
    say(f"{known} of {_PODS} workloads in {seconds:.1f} s")
    if known < _PODS:
        raise BenchError(f"{known} of {_PODS} pods are measured: {ended.err}")
    return seconds


if __name__ == "__main__":
    run(bench)
