"""Builds clusters and queues for the simulation of placement."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpushare import names
from gpushare.analysis.placement.cluster import PlacementCluster, build_cluster, find_members
from gpushare.analysis.placement.place import PlacementResult, QueuedPod, place_pods
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.api.k8s.resources.host import HostResources
from gpushare.api.pool import Pool
from gpushare.editions.registry import get_mode, settled_labels
from gpushare.settings import Settings
from tests.kit.values.manifests import Json, build_pod
from tests.kit.values.objects import NOW, a_node, a_pool, a_snapshot

HERE = Namespace("default")
HOST = HostResources(32_000, 256)
NO_CARDS: Mapping[str, Collection[int]] = {}


def a_member(
    name: str, pool: Pool, *, cards: int = 1, card: int = 15, group: str = "", **more: Any
) -> Node:
    """Build a node of `pool`, in its mode, with cards of `card` units. It has the label `group` of
    the pool's selector, `gpu` unless it is said."""
    mode = get_mode(pool.spec.edition, pool.spec.schedule)
    amounts = {
        names.RESOURCE_GPU_MEMORY: cards * card,
        names.RESOURCE_GPU_CORE: cards * 100,
    }
    offered = {each: amounts.get(each, cards) for each in mode.resources}
    labels = {**settled_labels(pool.name, pool.spec), **more.pop("labels", {})}
    if group:
        labels["group"] = group
    values: dict[str, Any] = {
        "allocatable": offered,
        "capacity": offered,
        "gpu_count": cards,
        "host": HOST,
        "owned": frozenset({names.LABEL_POOL}),
    }
    return a_node(name, labels, **(values | more))


def a_placement_cluster(
    nodes: Iterable[Node],
    *pools: Pool,
    pods: Iterable[Pod] = (),
    unhealthy: Mapping[str, Collection[int]] = NO_CARDS,
    namespaces: Collection[Namespace] = (HERE,),
    setup: Settings | None = None,
) -> PlacementCluster:
    """Build a cluster in which the nodes are as their pools want them."""
    snapshot = a_snapshot(pools=pools, nodes=tuple(nodes), pods=tuple(pods))
    snapshot = replace(snapshot, unhealthy_cards=unhealthy)
    members = find_members(snapshot)
    return build_cluster(snapshot, members, namespaces, {}, setup or Settings(), NOW)


def a_queue(*gib: int, **spec: Any) -> list[QueuedPod]:
    """Build a queue of pods `p0`, `p1` ... that request so many units, with more of their spec."""
    return [a_queued(f"p{number}", gib=units, **spec) for number, units in enumerate(gib)]


def a_queued(name: str = "p", **pod: Any) -> QueuedPod:
    """Build a queued pod, as `build_pod` builds its manifest."""
    return parse_queued(build_pod(name, **pod))


def parse_queued(pod: Json) -> QueuedPod:
    """Parse a queued pod from its manifest."""
    return QueuedPod(HERE.name, pod["metadata"]["name"], parse_pod_shape(pod))


def a_filled_pool(
    *gib: int, nodes: int = 1, cards: int = 1, card: int = 15, **pool: Any
) -> PlacementResult:
    """Place pods of so many units on one pool of equal nodes."""
    training = a_pool(**pool)
    members = [a_member(f"n{i}", training, cards=cards, card=card) for i in range(nodes)]
    return place_pods(a_placement_cluster(members, training), a_queue(*gib))


def list_cards(result: PlacementResult) -> list[Mapping[int, int] | None]:
    """List the cards of each pod; None for one that stays pending."""
    return [each.cards if each.node else None for each in result.pods]


def list_pending(result: PlacementResult) -> list[str]:
    """List the names of the pods that stay pending."""
    return [each.pod.name for each in result.pods if not each.node]
