"""A cluster as the operator's decisions see it."""

from collections import defaultdict
from dataclasses import dataclass

from gpushare import names
from gpushare.api.cluster import Cluster
from gpushare.api.namespace import parse_namespace
from gpushare.api.node import parse_node
from gpushare.api.pod import Pod, parse_pod
from gpushare.core.world import World
from gpushare.kube.errors import CrdMissingError
from gpushare.kube.pools import UnreadablePool, parse_pools


@dataclass(frozen=True, slots=True)
class Seen:
    """A World, and what of a cluster is not in it."""

    world: World
    unbound: tuple[Pod, ...]
    """Pods without a node."""
    opted_out: frozenset[str]
    """Names of the namespaces whose pods are sent nowhere."""
    unreadable: tuple[UnreadablePool, ...]
    """Pools whose spec can't be read."""


def observe_cluster(cluster: Cluster) -> Seen:
    """What decisions see of `cluster`, as if the controller ran and had adopted all pools.

    Raises `CrdMissingError`.
    """
    if cluster.pools is None:
        raise CrdMissingError
    read, unreadable = parse_pools(cluster.pools)
    pools = (
        pool.model_copy(update={"finalizers": pool.finalizers | {names.FINALIZER}}) for pool in read
    )
    by_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for raw in cluster.pods:
        pod = parse_pod(raw, plugin_namespace=names.PLUGIN_NAMESPACE)
        if pod is not None:
            by_node[pod.node].append(pod)
    unbound = tuple(by_node.pop("", ()))
    nodes = map(parse_node, cluster.nodes)
    world = World(
        pools=tuple(pools),
        unreadable_pools=frozenset(pool.name for pool in unreadable),
        nodes={node.name: node for node in nodes},
        pods=dict(by_node),
        daemonsets=frozenset(raw["metadata"]["name"] for raw in cluster.daemonsets),
    )
    namespaces = map(parse_namespace, cluster.namespaces)
    opted_out = frozenset(each.name for each in namespaces if each.opts_out)
    return Seen(world, unbound, opted_out, unreadable)
