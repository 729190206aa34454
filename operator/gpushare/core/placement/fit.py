"""Tells whether a pod that waits would run on an idle node, once a pool has that node."""

from collections.abc import Mapping

from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.placement.converted_node import convert_node
from gpushare.core.placement.node_info import build_node_info, find_cards
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.registry import get_mode


def would_run(
    snapshot: ClusterSnapshot,
    pools: Mapping[str, Pool],
    unit: str,
    pod: Pod,
    node_name: str,
    pool_name: str,
) -> bool:
    """Return whether `pod` would run on a node without GPU pods as a member of the pool; memory is
    counted in `unit`."""
    pool, node = pools[pool_name], snapshot.nodes[node_name]
    mode = snapshot.plugin_daemonsets.resolve(get_mode(pool.spec.edition, pool.spec.schedule))
    converted = convert_node(node, pool, mode, unit)
    view = PoolView(pool.name, pool.spec.schedule, edition=pool.spec.edition)
    unhealthy = snapshot.unhealthy_cards.get(node_name, ())
    info = build_node_info(converted, view, (), unhealthy, {})
    return pod.info is not None and find_cards(info, pod.info) is not None
