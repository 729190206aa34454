"""Which pools can take a pod, worked out once for all pods that ask for the same."""

from collections.abc import Hashable, Sequence

import msgspec

from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.node_selection import ANYWHERE
from gpushare.core.admission.decision import Loser
from gpushare.core.admission.filter import find_rejection
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import AdmissionRequest
from gpushare.core.admission.score import Contest
from gpushare.names import Reason

MAX_KINDS = 1000
"""Of pods that are remembered: anybody may ask for any amount."""


class Shortlist(msgspec.Struct, frozen=True):
    """The pools for pods of one kind in one namespace."""

    lost: tuple[Loser, ...]
    """Those that can't take them."""
    contest: Contest | None
    """Between the others; None where there is none."""
    namespace: Namespace


class Shortlists:
    """Those of one process; forgotten where a pool changes."""

    def __init__(self) -> None:
        self._pools: Sequence[PoolView] = ()
        self._by_kind: dict[Hashable, Shortlist] = {}
        self._pods_matter = False

    def find(self, request: AdmissionRequest) -> Shortlist:
        """That of a pod. `request.pools` is the same object for as long as no pool changes."""
        pod, pools = request.pod, request.pools
        if pod.selection is not ANYWHERE:
            return _build(request)
        if pools is not self._pools or len(self._by_kind) >= MAX_KINDS:
            self._pools, self._by_kind = pools, {}
            self._pods_matter = any(pool.pod_selector is not None for pool in pools)
        kind = (
            *(request.namespace.name, pod.asked, pod.memory, pod.card_memory, pod.card_count),
            *(pod.wants_whole_card, pod.isolation, pod.disables_isolation),
            frozenset(pod.labels.items()) if self._pods_matter else None,
        )
        found = self._by_kind.get(kind)
        if found is None or found.namespace is not request.namespace:
            found = self._by_kind[kind] = _build(request)
        return found


def _build(request: AdmissionRequest) -> Shortlist:
    candidates: list[PoolView] = []
    lost: list[Loser] = []
    for pool in request.pools:
        rejection = find_rejection(request, pool)
        if rejection is None and pool.on_request:
            rejection = Reason.ON_REQUEST_ONLY
        if rejection is None:
            candidates.append(pool)
        else:
            lost.append((rejection, pool.name))
    lost.sort()
    contest = Contest(request.pod, candidates, lost) if candidates else None
    return Shortlist(tuple(lost), contest, request.namespace)
