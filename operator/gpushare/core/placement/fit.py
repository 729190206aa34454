"""Tells whether pods that wait would run on an idle node, once a pool has that node."""

from collections.abc import Collection, Mapping

from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod_request import PodInfo
from gpushare.api.pool import Pool
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.placement.converted_node import convert_node
from gpushare.core.placement.node_info import NodeInfo, build_node_info, find_cards
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import (
    find_edition,
    find_mode,
    find_schedule,
    find_transition,
    get_mode,
)

_MOST_ANSWERS = 200_000
_AUTOMATIC = frozenset({Outcome.APPLY, Outcome.APPLY_AND_RESTART})


class FitAnswers:
    """Answers, kept for as long as node, unhealthy cards, pool and pod stay the same.

    They are to be dropped where the device plugins' DaemonSets change.
    """

    def __init__(self, memory_unit: str) -> None:
        self._memory_unit = memory_unit
        self._infos: dict[tuple[str, str], tuple[Node, Pool, Collection[int], NodeInfo | None]] = {}
        """By node and pool, the node as it would be as a member of the pool."""
        self._answers: dict[tuple[bytes, str, str], tuple[NodeInfo | None, bool]] = {}

    def clear(self) -> None:
        """Drop all answers."""
        self._infos.clear()
        self._answers.clear()

    def would_run(
        self,
        snapshot: ClusterSnapshot,
        pools: Mapping[str, Pool],
        infos: Mapping[bytes, PodInfo],
        kind: bytes,
        node_name: str,
        pool_name: str,
    ) -> bool:
        """Return whether pods of this `kind` would run on a node without GPU pods as a member of
        the pool.

        A node whose mode the operator does not change by itself, such as by a teardown, or that is
        of another edition, is none on which they would run.
        """
        info = self._convert(snapshot, node_name, pools[pool_name])
        known = self._answers.get((kind, node_name, pool_name))
        if known is not None and known[0] is info:
            return known[1]
        answer = info is not None and find_cards(info, infos[kind]) is not None
        if len(self._answers) > _MOST_ANSWERS:
            self._answers.clear()
        self._answers[kind, node_name, pool_name] = info, answer
        return answer

    def _convert(self, snapshot: ClusterSnapshot, name: str, pool: Pool) -> NodeInfo | None:
        node, known = snapshot.nodes[name], self._infos.get((name, pool.name))
        unhealthy = snapshot.unhealthy_cards.get(name, ())
        is_same = known and known[0] is node and known[1].spec is pool.spec
        if known is not None and is_same and known[2] == unhealthy:
            return known[3]
        info = None
        if changes_by_itself(node, pool):
            mode = get_mode(pool.spec.edition, pool.spec.schedule)
            mode = snapshot.plugin_daemonsets.resolve(mode)
            converted = convert_node(node, pool, mode, self._memory_unit)
            view = PoolView(pool.name, pool.spec.schedule, edition=pool.spec.edition)
            info = build_node_info(converted, view, (), unhealthy, {})
        if len(self._infos) > _MOST_ANSWERS:
            self._infos.clear()
        self._infos[name, pool.name] = node, pool, unhealthy, info
        return info


def changes_by_itself(node: Node, pool: Pool) -> bool:
    """Return whether the operator makes the node a member of the pool without a user."""
    edition, wanted = pool.spec.edition, pool.spec.schedule
    if find_edition(node.labels) not in (None, edition):
        return False
    current = find_schedule(edition, node.labels)
    if current == wanted or find_mode(edition, current) is None:
        return True
    return find_transition(edition, current, wanted).outcome in _AUTOMATIC
