"""A cluster as the operator's decisions see it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpushare import names
from gpushare.api.cluster import Cluster, Kind
from gpushare.api.daemonset import list_standard_names, parse_daemonset
from gpushare.api.namespace import parse_namespace
from gpushare.api.node import parse_node
from gpushare.api.pod import Pod, parse_pod
from gpushare.api.pool import Pool, PoolSpec
from gpushare.api.unhealthycards import parse_unhealthy_cards
from gpushare.api.unreadablepool import UnreadablePool
from gpushare.core.knownsetup import KnownSetup, read_setup
from gpushare.core.plugindaemonsets import PluginDaemonSets
from gpushare.core.world import World
from gpushare.kube.deployments import parse_deployment
from gpushare.kube.errors import CrdMissingError
from gpushare.kube.pools import parse_pools

PLANNED = (Kind.NODES, Kind.PODS, Kind.POOLS, Kind.DAEMONSETS, Kind.DEPLOYMENTS)
"""What the planner decides by: also how it is set."""


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
    known: KnownSetup
    """How the installation is set, which is in no World."""


def observe_cluster(cluster: Cluster) -> Seen:
    """What decisions see of `cluster`, as if the controller ran and had adopted all pools.

    Before the operator is installed there are none.
    """
    read, unreadable = parse_pools(cluster.pools or ())
    pools = (
        pool.model_copy(update={"finalizers": pool.finalizers | {names.FINALIZER}}) for pool in read
    )
    # The names of DaemonSets are read first; of the rest, what is assumed depends on the world.
    given = _observe_setup(cluster, World()).plugin_daemonsets
    standard_names = list_standard_names(given)
    by_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for raw in cluster.pods:
        pod = parse_pod(raw, plugin_namespace=names.PLUGIN_NAMESPACE, standard_names=standard_names)
        if pod is not None:
            by_node[pod.node].append(pod)
    unbound = tuple(by_node.pop("", ()))
    nodes = map(parse_node, cluster.nodes)
    world = World(
        pools=tuple(pools),
        unreadable_pools=frozenset(pool.name for pool in unreadable),
        nodes={node.name: node for node in nodes},
        pods=dict(by_node),
        plugin_daemonsets=PluginDaemonSets(
            given, frozenset(map(parse_daemonset, cluster.daemonsets))
        ),
        unhealthy_cards={
            each.node: each.cards for each in map(parse_unhealthy_cards, cluster.configmaps) if each
        },
    )
    namespaces = map(parse_namespace, cluster.namespaces)
    opted_out = frozenset(each.name for each in namespaces if each.opts_out)
    return Seen(world, unbound, opted_out, unreadable, _observe_setup(cluster, world))


def _observe_setup(cluster: Cluster, world: World) -> KnownSetup:
    if cluster.deployments is None:
        return read_setup(None, world)
    deployments = map(parse_deployment, cluster.deployments)
    return read_setup({str(each): each.settings for each in deployments}, world)


def observe_pools(cluster: Cluster) -> Seen:
    """The same, for a question about pools. Raises `CrdMissingError` where none can be."""
    if cluster.pools is None:
        raise CrdMissingError
    return observe_cluster(cluster)


def _keep_agreement(old: PoolSpec, new: PoolSpec) -> PoolSpec:
    """What `gpushare approve` wrote is its own: an apply of a manifest without it leaves it."""
    if new.rollout.approved_plan is not None or old.rollout.approved_plan is None:
        return new
    kept = {"approved_plan": old.rollout.approved_plan}
    return new.model_copy(update={"rollout": new.rollout.model_copy(update=kept)})


def with_pools(world: World, pools: Iterable[Pool]) -> World:
    """`world` once these pools are applied to it: each in place of the one that has its name.

    Of that one stays what an apply leaves; another spec is another generation.
    """
    present = {pool.name: pool for pool in world.pools}
    for new in pools:
        old = present.get(new.name)
        if old is None:
            update: dict[str, object] = {"finalizers": new.finalizers | {names.FINALIZER}}
            present[new.name] = new.model_copy(update=update)
            continue
        spec = _keep_agreement(old.spec, new.spec)
        update = {
            "spec": spec,
            "retry": new.retry or old.retry,
            "generation": old.generation + (old.spec != spec),
        }
        present[new.name] = old.model_copy(update=update)
    return replace(
        world,
        pools=tuple(present.values()),
        unreadable_pools=world.unreadable_pools - present.keys(),
    )
