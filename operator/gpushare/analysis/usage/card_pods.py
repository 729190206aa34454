"""Finds the pods that hold memory of cards, and how much each asked for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpushare import names
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import CRASH_LOOP, Pod, find_controller
from gpushare.api.k8s.pod_owner import Workload, name_workload
from gpushare.core.capacity.card_memory import read_card_memory
from gpushare.core.capacity.node_capacity import UNIT_BYTES, observe_node_capacity
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context
from gpushare.core.snapshot.isolation import observe_containers

Json = Mapping[str, Any]
_OUT_OF_MEMORY = "OOMKilled"
_CARDS = (names.RESOURCE_WHOLE_GPU, names.RESOURCE_SHARED_GPU)
_COUNT = "nvidia.com/gpu.count"
"""Label of NVIDIA's GPU feature discovery with the number of a node's cards."""
_HAMI = ("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores")
"""Resources by which HAMi gives a part of a card to a pod that also requests `nvidia.com/gpu`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPod:
    """A pod on a node that asked for memory of cards, for whole cards, or for replicas of them."""

    namespace: str
    name: str
    workload: Workload
    node: str
    is_node_known: bool
    """Whether the node could be read; without it unit, cards and isolation are not known."""
    pool: str
    """Pool of the node; empty where it is in none."""
    units: int
    """Memory that it asked for, in units of its plugin; of whole cards all of it, 0 if unknown."""
    bytes_per_unit: int
    cards: int
    """Cards that hold the memory."""
    card_units: int
    """Memory of one card of the node; 0 if unknown."""
    is_whole: bool
    """Whether it asked for whole cards."""
    is_isolated: bool
    """Whether it can't use more than it asked for."""
    is_crashing: bool
    """Whether a container of it waits to be started again, failed more than once, or was ended as
    out of the node's memory."""
    containers: tuple[str, ...]
    """Names of the containers that asked for memory."""
    is_single: bool
    """Whether one container asked for all of it, and no init container for more."""
    since: datetime | None
    """Time of the kubelet's admission; without one the pod holds nothing yet."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def asked_bytes(self) -> int:
        return self.units * self.bytes_per_unit


@dataclass(frozen=True, slots=True)
class _NodeCards:
    """What the pods of a node have in common."""

    is_known: bool
    pool: str
    unit: str
    card_units: int = 0
    has_replicas: bool = False
    isolated: frozenset[str] = frozenset()
    """UIDs of the pods of which each container is isolated."""


def list_card_pods(
    seen: ObservedCluster,
    raw_pods: Iterable[Json],
    members: Mapping[str, str],
    namespace: str | None,
) -> Iterator[CardPod]:
    """List the pods on nodes that hold cards, in `namespace` or everywhere; `members` are the pools
    by node."""
    raws = {raw["metadata"]["uid"]: raw for raw in raw_pods}
    unit = str(seen.known.setup.memory_unit)
    for name, pods in seen.snapshot.pods.items():
        holding = [
            pod
            for pod in pods
            if pod.is_live
            and namespace in (None, pod.namespace)
            and (pod.gpu_memory or any(pod.requests.get(each) for each in _CARDS))
        ]
        if holding:
            node = _observe_node(seen.snapshot, name, members.get(name, ""), unit)
            yield from (_build(pod, raws[pod.uid], node) for pod in holding)


def _observe_node(snapshot: ClusterSnapshot, name: str, pool: str, unit: str) -> _NodeCards:
    node = snapshot.nodes.get(name)
    if node is None:
        return _NodeCards(False, pool, unit)
    unit = observe_node_capacity(node, ()).unit or unit
    containers = observe_containers(build_node_context(snapshot, name).seen)
    unisolated = {each.pod.uid for each in containers if not each.isolated}
    isolated = frozenset(each.pod.uid for each in containers) - unisolated
    card_units = read_card_memory(node, unit) or 0
    return _NodeCards(True, pool, unit, card_units, _has_replicas(node), isolated)


def _has_replicas(node: Node) -> bool:
    """Tell whether NVIDIA's plugin gives out each of the node's cards several times."""
    replicas, cards = (node.labels.get(each, "") for each in (names.LABEL_REPLICAS, _COUNT))
    offered = node.allocatable.get(names.RESOURCE_WHOLE_GPU, 0)
    return (replicas.isdecimal() and int(replicas) > 1) or (
        cards.isdecimal() and offered > int(cards)
    )


def _build(pod: Pod, raw: Json, node: _NodeCards) -> CardPod:
    meta, status = raw["metadata"], raw.get("status") or {}
    is_partial = node.has_replicas or _asks_hami(raw)
    whole = 0 if is_partial else pod.requests.get(names.RESOURCE_WHOLE_GPU, 0)
    started = status.get("startTime")
    return CardPod(
        namespace=pod.namespace,
        name=pod.name,
        workload=pod.workload or name_workload(meta, find_controller(meta)),
        node=pod.node,
        is_node_known=node.is_known,
        pool=node.pool,
        units=pod.gpu_memory or whole * node.card_units,
        bytes_per_unit=UNIT_BYTES[node.unit],
        cards=whole or (pod.card_count if pod.gpu_memory else 1),
        card_units=node.card_units,
        is_whole=bool(whole),
        is_isolated=pod.uid in node.isolated,
        is_crashing=any(map(_crashes, status.get("containerStatuses") or ())),
        containers=tuple(each.name for each in pod.containers),
        is_single=len(pod.containers) == 1 and pod.card_memory == pod.gpu_memory,
        since=datetime.fromisoformat(started) if started else None,
    )


def _asks_hami(raw: Json) -> bool:
    containers = raw["spec"].get("containers") or ()
    limits = ((each.get("resources") or {}).get("limits") or {} for each in containers)
    return any(resource in each for each in limits for resource in _HAMI)


def _crashes(status: Json) -> bool:
    waiting = (status.get("state") or {}).get("waiting") or {}
    ended = (status.get("lastState") or {}).get("terminated") or {}
    has_failed = bool(ended.get("exitCode")) and status.get("restartCount", 0) > 1
    is_waiting = waiting.get("reason") == CRASH_LOOP
    return is_waiting or has_failed or ended.get("reason") == _OUT_OF_MEMORY
