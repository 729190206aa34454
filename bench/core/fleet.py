"""Creates and resets thousands of nodes, with plugin pods and GPU pods."""

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import orjson

from bench.core import loop
from bench.core.api import JSON_PATCH, MANAGER, MERGE_PATCH, Api, Json, RefusedError, for_each
from bench.core.nodewatch import NODES, NodeWatch
from bench.core.waiting import until
from devcluster import names
from devcluster.editions import load_edition
from devcluster.nodes import build_gpu_node
from tests.kit.values.manifests import NODE_POOL, NODE_POOL_LABEL, build_pod

POOL = "bench"
PLUGIN = "gpushare-device-plugin-ds"
POOL_LABEL = "gpushare.io/pool"
PLACEMENT_LABEL = "ack.node.gpu.placement"
TICK_LABEL = "bench.example/tick"
READ_LABEL = "bench.example/read"
"""Label in the pool's selector, which matches any value."""
GPU_PODS_PER_NODE = 4

_OUR_LABELS = frozenset({POOL_LABEL, PLACEMENT_LABEL, TICK_LABEL, READ_LABEL})
RECORDS = "gpushare.io/"
"""Prefix of the annotations by which the operator keeps records on a node."""
_NOTES = (RECORDS, "nfd.node.kubernetes.io/")
"""The same, and NFD's."""
_NFD_LABELS = "feature.node.kubernetes.io/"
_WRITERS = frozenset({loop.MANAGER, "gpushare-operator", "nfd-master", MANAGER})
_CREATOR = "gpushare-bench-creator"
_DAEMONSETS = f"apis/apps/v1/namespaces/{names.SYSTEM_NAMESPACE}/daemonsets"
_PODS = "api/v1/namespaces/default/pods"
_MEMORY_GIB = 15
_POD_GIB = 3
_START_SECONDS = 60
_SLOWEST_PER_SECOND = 10
_RESET_SECONDS = 120


class Fleet:
    """Nodes in the mode `share` of the Professional edition, in no pool yet."""

    def __init__(self, api: Api, nodes: NodeWatch) -> None:
        self._api = api
        self._nodes = nodes
        self._with_pods: set[str] = set()

    def __len__(self) -> int:
        return len(self._nodes.metadata)

    async def install_edition(self) -> None:
        """Install the edition's DaemonSets; KWOK makes their pods Ready, without the simulator."""
        for manifest in load_edition("Professional"):
            del manifest["spec"]["template"]["metadata"]["annotations"][names.PLAYED]
            await self._api.call("POST", _DAEMONSETS, manifest)

    async def grow(self, size: int) -> float:
        """Add nodes with a Ready plugin until there are `size`; return the seconds."""
        started = time.monotonic()
        new = [build_node(index) for index in range(len(self), size)]
        await for_each(self._join, new)
        await until(
            partial(self._has_ready_plugins, size),
            f"{size} nodes have a Ready plugin",
            seconds=_START_SECONDS + size / _SLOWEST_PER_SECOND,
            poll_seconds=1,
        )
        await self._nodes.until_still()
        return time.monotonic() - started

    async def add_gpu_pods(self) -> None:
        """Add running GPU pods to every node that has none yet."""
        without = sorted(self._nodes.metadata.keys() - self._with_pods)
        self._with_pods.update(without)
        pods = (pod for node in without for pod in build_gpu_pods(node))
        await for_each(self._run_pod, pods)

    async def reset(self) -> None:
        """Remove everything from nodes that was written since their creation, ownership included.

        The operator must not run, or it would write it again.
        """

        async def is_clean() -> bool:
            written = [meta for meta in self._nodes.metadata.values() if build_reset(meta)]
            await for_each(self._reset_node, written)
            return not written

        await until(is_clean, "everything that was written is taken off", seconds=_RESET_SECONDS)
        await self._nodes.until_still()

    async def _join(self, node: Json) -> None:
        """Create a node, and remove the taint of new nodes.

        The node controller removes it too, but one by one, and no plugin starts before.
        """
        await self._api.call("POST", NODES, node, manager=_CREATOR)
        path, free = f"{NODES}/{node['metadata']['name']}", {"spec": {"taints": None}}
        await self._api.call("PATCH", path, free, content_type=MERGE_PATCH, manager=_CREATOR)

    async def _has_ready_plugins(self, count: int) -> bool:
        daemonset = await self._api.call("GET", f"{_DAEMONSETS}/{PLUGIN}")
        ready: int = daemonset["status"].get("numberReady", 0)
        return ready >= count

    async def _run_pod(self, pod: Json) -> None:
        """Create a bound pod, and set its status to Running as a kubelet would."""
        await self._api.call("POST", _PODS, pod)
        path, status = f"{_PODS}/{pod['metadata']['name']}/status", build_running_status(pod)
        await self._api.call("PATCH", path, {"status": status}, content_type=MERGE_PATCH)

    async def _reset_node(self, meta: Json) -> None:
        # Where its test fails the node changed since the watch brought it: it is looked at again.
        with suppress(RefusedError):
            path = f"{NODES}/{meta['name']}"
            await self._api.call("PATCH", path, build_reset(meta), content_type=JSON_PATCH)


def build_node(index: int) -> Json:
    """Build a node of the bench's node pool that offers memory already."""
    node = build_gpu_node(
        f"gpu-{index:05}",
        card_memory_gib=_MEMORY_GIB,
        labels={NODE_POOL_LABEL: NODE_POOL, names.SCHEDULE: "share"},
    )
    for resources in (node["status"]["capacity"], node["status"]["allocatable"]):
        resources |= {names.GPU_MEM: str(_MEMORY_GIB), names.GPU_COUNT: "1"}
    return node


def build_gpu_pods(node: str) -> Iterator[Json]:
    """Build the bound GPU pods of a node, with the scheduler's ledger."""
    for index in range(GPU_PODS_PER_NODE):
        ledger = {
            names.ALLOCATION: orjson.dumps({"0": {"0": _POD_GIB}}).decode(),
            names.ASSIGNED: "true",
            names.ASSUME_TIME: str(time.time_ns()),
        }
        yield build_pod(
            f"{node}-{index}",
            gib=_POD_GIB,
            annotations=ledger,
            # As the webhook routes them; a pod without it would be reported.
            selects={POOL_LABEL: POOL},
            nodeName=node,
        )


def build_running_status(pod: Json) -> Json:
    """Build the status of a running pod, as a kubelet reports it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    (container,) = pod["spec"]["containers"]
    facts = {"name": container["name"], "image": container["image"], "imageID": "", "ready": True}
    state = {"restartCount": 0, "state": {"running": {"startedAt": now}}}
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        "containerStatuses": [facts | state],
    }


def build_reset(meta: Json) -> list[Json]:
    """Build the JSON patch that resets a node to its creation; empty where nothing changed."""
    labels = [key for key in meta["labels"] if key in _OUR_LABELS or key.startswith(_NFD_LABELS)]
    notes = [key for key in meta["annotations"] if key.startswith(_NOTES)]
    entries = meta["managedFields"]
    owned = [index for index, entry in enumerate(entries) if entry["manager"] in _WRITERS]
    if not (labels or notes or owned):
        return []
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]}
    return [
        version,
        *(_remove("labels", key) for key in sorted(labels)),
        *(_remove("annotations", key) for key in sorted(notes)),
        *(_remove("managedFields", str(index)) for index in reversed(owned)),
    ]


def _remove(part: str, key: str) -> Json:
    return {"op": "remove", "path": f"/metadata/{part}/{key.replace('/', '~1')}"}
