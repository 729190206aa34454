"""Tells whether a pod that waits would run on an idle node, once a pool has that node."""

from collections.abc import Mapping

from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.placement.converted_node import convert_node
from gpushare.core.placement.node_info import build_node_info, find_cards
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import (
    find_edition,
    find_mode,
    find_schedule,
    find_transition,
    get_mode,
)

_AUTOMATIC = frozenset({Outcome.APPLY, Outcome.APPLY_AND_RESTART})


def would_run(
    snapshot: ClusterSnapshot,
    pools: Mapping[str, Pool],
    unit: str,
    pod: Pod,
    node_name: str,
    pool_name: str,
) -> bool:
    """Return whether `pod` would run on a node without GPU pods as a member of the pool.

    Memory is counted in `unit`. A node whose mode the operator does not change by itself, such as
    by a teardown, or that is of another edition, is none on which it would run.
    """
    pool, node = pools[pool_name], snapshot.nodes[node_name]
    edition, wanted = pool.spec.edition, pool.spec.schedule
    if find_edition(node.labels) not in (None, edition):
        return False
    current = find_schedule(edition, node.labels)
    changes = current != wanted and find_mode(edition, current) is not None
    if changes and find_transition(edition, current, wanted).outcome not in _AUTOMATIC:
        return False
    mode = snapshot.plugin_daemonsets.resolve(get_mode(pool.spec.edition, pool.spec.schedule))
    converted = convert_node(node, pool, mode, unit)
    view = PoolView(pool.name, pool.spec.schedule, edition=pool.spec.edition)
    unhealthy = snapshot.unhealthy_cards.get(node_name, ())
    info = build_node_info(converted, view, (), unhealthy, {})
    return pod.info is not None and find_cards(info, pod.info) is not None
