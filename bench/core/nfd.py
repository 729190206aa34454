"""Measures how a released nfd-master of Node Feature Discovery labels all nodes."""

import asyncio
import os
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import yaml

from bench.core.api import Json, for_each
from bench.core.goprogram import find_ports, find_source, serving
from bench.core.labelling import Contestant, Labelling, measure, writes
from bench.core.processes import until_quiet
from bench.core.rig import Rig
from bench.core.waiting import until
from devcluster.cluster import Cluster
from devcluster.installation import apply_crds
from devcluster.toolchain import GoModule, ensure_binaries

NFD = "sigs.k8s.io/node-feature-discovery"
_MODULE = GoModule(
    Path(__file__).parents[1] / "nfd",
    "NFD's nfd-master",
    (f"{NFD}/cmd/nfd-master",),
    "about 5 minutes",
    # As its authors do: our own programs are built for a short build.
    flags=(),
)
_LABELS = {
    "feature.node.kubernetes.io/bench-pool": "bench",
    "feature.node.kubernetes.io/bench-placement": "binpack",
}
"""Labels in the namespace that nfd-master allows by default."""
_API = "apis/nfd.k8s-sigs.io/v1alpha1"
_KIND = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1"}
_FEATURE = "bench.card"
_RULE: Json = {
    **_KIND,
    "kind": "NodeFeatureRule",
    "metadata": {"name": "bench"},
    "spec": {
        "rules": [
            {
                "name": "bench",
                "labels": _LABELS,
                "matchFeatures": [
                    {"feature": _FEATURE, "matchExpressions": {"shared": {"op": "IsTrue"}}}
                ],
            }
        ]
    },
}
_IDLE_SECONDS = 900
_POLL_SECONDS = 3.0


def build_master() -> Path:
    """Build nfd-master unless it is built; return its path."""
    return ensure_binaries(os.environ, _MODULE) / "nfd-master"


def build_feature(node: str) -> Json:
    """Build the smallest NodeFeature of a node that a rule can match."""
    return {
        **_KIND,
        "kind": "NodeFeature",
        "metadata": {"name": node, "labels": {"nfd.node.kubernetes.io/node-name": node}},
        "spec": {"features": {"attributes": {_FEATURE: {"elements": {"shared": "true"}}}}},
    }


async def install(rig: Rig) -> None:
    """Install the CRDs, and a NodeFeature of each node."""
    await asyncio.to_thread(_apply_crds, rig.installation.cluster)
    post = partial(rig.api.call, "POST", f"{_API}/namespaces/default/nodefeatures")
    await for_each(post, map(build_feature, rig.nodes.metadata))


async def label_by_master(rig: Rig, master: Path, workers: int) -> Labelling:
    """Measure the master with a new rule, and `workers` nodes at once.

    The master was started before, and has processed every node. Nodes are reset afterwards.
    """
    cluster = rig.installation.cluster
    port, *_ = find_ports(cluster)
    command = (
        *(str(master), f"-kubeconfig={cluster.kubeconfig}", "-config=", "-grpc-health=0"),
        *(f"-metrics={port}", f"-nfd-api-parallelism={workers}"),
    )
    env = {"NODE_NAME": next(iter(rig.nodes.metadata)), "KUBERNETES_NAMESPACE": "default"}
    async with serving(cluster, command, port, env) as pid:
        idle = _has_looked(port, len(rig.fleet))
        await until(idle, "nfd-master is idle", seconds=_IDLE_SECONDS, poll_seconds=_POLL_SECONDS)
        contestant = Contestant(
            f"nfd-master with {workers} workers",
            pid,
            partial(rig.api.call, "POST", f"{_API}/nodefeaturerules", _RULE),
            partial(until_quiet, pid),
            writes(rig, "nfd-master/"),
            _is_labelled,
        )
        labelling = await measure(rig, contestant)
    await rig.api.call("DELETE", f"{_API}/nodefeaturerules/bench")
    await rig.fleet.reset()
    return labelling


def _apply_crds(cluster: Cluster) -> None:
    file = find_source(_MODULE.folder, NFD) / "deployment/base/nfd-crds/nfd-api-crds.yaml"
    apply_crds(cluster, [crd for crd in yaml.safe_load_all(file.read_text()) if crd])


def _is_labelled(meta: Json) -> bool:
    labels: dict[str, str] = meta["labels"]
    return _LABELS.items() <= labels.items()


def _has_looked(port: int, nodes: int) -> Callable[[], Awaitable[bool]]:
    """Return a check that the master processed all nodes after its start, and none since the last
    call."""
    processed = 0.0

    async def has_looked() -> bool:
        nonlocal processed
        before, processed = processed, await asyncio.to_thread(_read_requests, port)
        return before == processed >= nodes

    return has_looked


def _read_requests(port: int) -> float:
    """Read the number of processed nodes; with a rule there is a histogram of each node."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    name = "nfd_master_node_update_requests_total "
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))
