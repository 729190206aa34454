"""Converts a cluster that was read into what the operator's decisions use."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from gpushare import names
from gpushare.analysis.effective_settings import KnownSetup, read_setup
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.api.k8s.daemonset import DaemonSet, list_standard_names, parse_daemonset
from gpushare.api.k8s.dynamic_resources import allocates_cards, parse_resource_slice
from gpushare.api.k8s.namespace import parse_namespace
from gpushare.api.k8s.node import parse_node, parse_unhealthy_cards
from gpushare.api.k8s.pod import Pod, judge_claims, parse_pod
from gpushare.api.pool import Pool
from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.cluster.deployments import parse_deployment
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.plugin_config_map import parse_configs
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.kube.errors import CrdMissingError
from gpushare.kube.resources.pools import parse_pools

PLANNED = (
    *(Kind.NODES, Kind.PODS, Kind.POOLS, Kind.DAEMONSETS, Kind.DEPLOYMENTS),
    *(Kind.RESOURCESLICES, Kind.RESOURCECLAIMS, Kind.PLUGINCONFIGS),
)
"""The kinds that the planner needs, with its settings."""


def observe_cluster(cluster: Cluster) -> ObservedCluster:
    """Convert `cluster`, as if the controller ran and had adopted all pools.

    Before the operator is installed there are none.
    """
    read, unreadable = parse_pools(cluster.pools or ())
    pools = (
        pool.model_copy(update={"finalizers": pool.finalizers | {names.FINALIZER}}) for pool in read
    )
    # The names of DaemonSets are read first; of the rest, what is assumed depends on the world.
    setup = _observe_setup(cluster, ClusterSnapshot()).setup
    given, of_plugins = setup.plugin_daemonsets, (names.PLUGIN_NAMESPACE, setup.nvidia_namespace)
    standard_names = list_standard_names(given)
    claims = None if Kind.RESOURCECLAIMS in cluster.unread else _read_claims(cluster)
    by_node: defaultdict[str, list[Pod]] = defaultdict(list)
    for raw in cluster.pods:
        pod = parse_pod(
            raw, plugin_namespaces=of_plugins, standard_names=standard_names, for_users=True
        )
        if pod is not None:
            by_node[pod.node].append(judge_claims(pod, claims))
    unbound = tuple(by_node.pop("", ()))
    slices: defaultdict[str, list[str]] = defaultdict(list)
    for each in filter(None, map(parse_resource_slice, cluster.resourceslices)):
        slices[each.node].append(each.name)
    daemonsets: defaultdict[str, list[DaemonSet]] = defaultdict(list)
    for raw in cluster.daemonsets:
        daemonsets[raw["metadata"]["namespace"]].append(parse_daemonset(raw))
    nodes = map(parse_node, cluster.nodes)
    snapshot = ClusterSnapshot(
        pools=tuple(pools),
        unreadable_pools=frozenset(pool.name for pool in unreadable),
        nodes={node.name: node for node in nodes},
        pods=dict(by_node),
        plugin_daemonsets=PluginDaemonSets(
            given,
            frozenset(daemonsets[names.PLUGIN_NAMESPACE]),
            nvidia_namespace=setup.nvidia_namespace,
            nvidia=frozenset(daemonsets[setup.nvidia_namespace]),
            configs={each.name: each for each in map(parse_configs, cluster.pluginconfigs)},
        ),
        unhealthy_cards={
            each.node: each.cards for each in map(parse_unhealthy_cards, cluster.configmaps) if each
        },
        resource_slices=dict(slices),
    )
    namespaces = map(parse_namespace, cluster.namespaces)
    opted_out = frozenset(each.name for each in namespaces if each.opts_out)
    return ObservedCluster(
        snapshot, unbound, opted_out, unreadable, _observe_setup(cluster, snapshot)
    )


def _read_claims(cluster: Cluster) -> dict[str, bool | None]:
    named = ((each["metadata"], each) for each in cluster.resourceclaims)
    return {f"{meta['namespace']}/{meta['name']}": allocates_cards(raw) for meta, raw in named}


def _observe_setup(cluster: Cluster, snapshot: ClusterSnapshot) -> KnownSetup:
    if cluster.deployments is None:
        return read_setup(None, snapshot)
    deployments = map(parse_deployment, cluster.deployments)
    return read_setup({str(each): each.settings for each in deployments}, snapshot)


def observe_pools(cluster: Cluster) -> ObservedCluster:
    """Convert `cluster` for a question about pools. Raises `CrdMissingError` without their API."""
    if cluster.pools is None:
        raise CrdMissingError
    return observe_cluster(cluster)


def with_pools(snapshot: ClusterSnapshot, pools: Iterable[Pool]) -> ClusterSnapshot:
    """Return `snapshot` after an apply of these pools: each replaces the one that has its name.

    Of that one stays what an apply leaves; another spec is another generation.
    """
    present = {pool.name: pool for pool in snapshot.pools}
    for new in pools:
        old = present.get(new.name)
        if old is None:
            update: dict[str, object] = {"finalizers": new.finalizers | {names.FINALIZER}}
            present[new.name] = new.model_copy(update=update)
            continue
        update = {
            "spec": new.spec,
            "retry": new.retry or old.retry,
            "generation": old.generation + (old.spec != new.spec),
        }
        present[new.name] = old.model_copy(update=update)
    return replace(
        snapshot,
        pools=tuple(present.values()),
        unreadable_pools=snapshot.unreadable_pools - present.keys(),
    )
