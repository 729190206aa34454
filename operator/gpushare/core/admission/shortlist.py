"""Finds which pools can take a pod, once for all pods that ask for the same."""

from collections.abc import Hashable, Sequence

import msgspec

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.node_selection import ANYWHERE
from gpushare.api.selector import LabelSelector, matches_selector
from gpushare.core.admission.decision import Lost
from gpushare.core.admission.filter import find_rejection
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import AdmissionRequest
from gpushare.core.admission.score import MOST_RANKINGS, PoolRanker
from gpushare.names import Reason

MOST_REMEMBERED = 20_000
"""Kinds of pods, by their rankings and pools: anybody may ask for any amount."""
_ISOLATIONS = (names.ISOLATION_REQUIRED, names.ISOLATION_NONE)


class Shortlist(msgspec.Struct, frozen=True):
    """The pools for pods of one kind in one namespace."""

    lost: Lost
    """Pools that cannot take the pods."""
    ranker: PoolRanker | None
    """Ranks the pools that can take the pods; None if there are none."""
    namespace: Namespace


class Shortlists:
    """The shortlists of one process; dropped where a pool changes.

    Nothing is kept that a pod's creator wrote: before it is validated a text may be of any length.
    """

    def __init__(self) -> None:
        self._pools: Sequence[PoolView] = ()
        self._pod_selectors: Sequence[LabelSelector] = ()
        self._by_kind: dict[Hashable, Shortlist] = {}

    def get_or_build(self, request: AdmissionRequest) -> Shortlist:
        """Get the shortlist of a pod. `request.pools` is the same object while no pool changes."""
        pod, pools = request.pod, request.pools
        if pools is not self._pools or self._is_full(len(pools)):
            self._pools, self._by_kind = pools, {}
            selectors = (pool.pod_selector for pool in pools)
            self._pod_selectors = [each for each in selectors if each is not None]
        kind = (
            *(request.namespace.name, pod.asked, pod.memory, pod.card_memory, pod.card_count),
            *(pod.wants_whole_card, pod.disables_isolation),
            pod.isolation if pod.isolation in _ISOLATIONS else "",
            *(matches_selector(selector, pod.labels) for selector in self._pod_selectors),
            None if pod.selection is ANYWHERE else tuple(p.match(pod.selection) for p in pools),
            tuple(p.weigh(pod.preferences) for p in pools) if pod.preferences else None,
        )
        found = self._by_kind.get(kind)
        if found is None or found.namespace is not request.namespace:
            found = self._by_kind[kind] = _build(request)
        return found

    def _is_full(self, pools: int) -> bool:
        return len(self._by_kind) * (MOST_RANKINGS + pools) >= MOST_REMEMBERED


def _build(request: AdmissionRequest) -> Shortlist:
    candidates: list[PoolView] = []
    lost: dict[Reason, list[str]] = {}
    for pool in request.pools:
        rejection = find_rejection(request, pool)
        if rejection is None and pool.on_request:
            rejection = Reason.ON_REQUEST_ONLY
        if rejection is None:
            candidates.append(pool)
        else:
            lost.setdefault(rejection, []).append(pool.name)
    by_reason: Lost = {reason: sorted(lost[reason]) for reason in sorted(lost)}
    ranker = PoolRanker(request.pod, candidates, by_reason) if candidates else None
    return Shortlist(by_reason, ranker, request.namespace)
