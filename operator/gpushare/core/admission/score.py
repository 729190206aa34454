"""Judges how well a pod fits into a pool, and ranks the eligible pools."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from operator import attrgetter

from gpushare import names
from gpushare.api.k8s.gpu_request import count_per_card
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.core.admission.decision import NONE_LOST, Lost, build_annotation
from gpushare.core.admission.gangs import Gang
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.capacity.room import Room
from gpushare.editions.registry import EDITIONS
from gpushare.names import Reason

_DOUBT = 3
"""Factor on this webhook's own assignments: those of other replicas are not known."""


class Fit(IntEnum):
    """How well a pod fits into a pool, from best to worst."""

    ROOM = 0
    """Cards have it free, and enough for those that came before."""
    CARD = 1
    """Cards have it free, and others may be on their way to them."""
    UNKNOWN = 2
    FULL = 3
    """No card has so much free now."""
    TOO_LARGE = 4
    """No card is so large, or there is no node."""


Rank = tuple[int, Fit, int, int, float, str, PoolView]
"""First the doubt: 0 where a node is known to match the pod's node selection and may be large
enough, 1 where that is not known, 2 where none is large enough. Names are unequal, so that pools
themselves are never compared."""


def judge_fit(pod: PodRequest, pool: PoolView, reserved: int) -> Fit:
    """Judge how well `pod` fits into `pool`, of which `reserved` units are given away unseen."""
    return PoolFit(pod, pool).judge(reserved)


class PoolFit:
    """The fit of one kind of pods in a pool, with any number of units reserved."""

    __slots__ = (
        *("_fit", "_preference", "_rank", "_reserved", "_spare_units"),
        *("is_known_to_match", "places", "pool"),
    )

    def __init__(self, pod: PodRequest, pool: PoolView) -> None:
        self.pool = pool
        self.is_known_to_match = pool.match(pod.selection) is True
        self._preference = pool.weigh(pod.preferences)
        self._fit, self._spare_units = _measure(pod, pool)
        units, cards = ask_per_card(pod, pool)
        self.places = max(self._spare_units // (units * cards) + 1, 0)
        """Number of such pods that the figures show room for."""
        self._reserved, self._rank = 0, self._build_rank(0)

    def judge(self, reserved: int, doubt: int = _DOUBT) -> Fit:
        """Return the fit once `reserved` units are taken that the figures do not show, or `doubt`
        times as many."""
        if self._fit is Fit.ROOM and reserved * doubt > self._spare_units:
            return Fit.CARD
        return self._fit

    def rank(self, reserved: int) -> Rank:
        """Return the pool's sort key; the best pool sorts first."""
        if reserved != self._reserved:
            self._reserved, self._rank = reserved, self._build_rank(reserved)
        return self._rank

    def _build_rank(self, reserved: int) -> Rank:
        fit, pool = self.judge(reserved), self.pool
        doubt = 2 if fit is Fit.TOO_LARGE else int(not self.is_known_to_match)
        # Without what this webhook alone knows, so that all of them find the same pool.
        free = -free_share(pool.room, reserved) if fit is Fit.CARD else free_share(pool.room, 0)
        return doubt, fit, -self._preference, -pool.priority, free, pool.name, pool


def _measure(pod: PodRequest, pool: PoolView) -> tuple[Fit, int]:
    """Return the fit, and for ROOM how many units may be taken until it is only CARD, which it
    already is where that is below 0. For another fit it is -1: no such pod fits."""
    room = pool.room
    if pool.nodes == 0:
        return Fit.TOO_LARGE, -1
    if room is None:
        return Fit.UNKNOWN, -1
    units, cards = ask_per_card(pod, pool)
    if units > room.largest_card > 0:
        return Fit.TOO_LARGE, -1
    least = (room.largest_card or units) if needs_whole_card(pod, pool) else units
    large_enough = places = 0
    for size, count in room.free_blocks:
        if size < least:
            break
        large_enough += count
        places += count * (size // units)
    if large_enough < cards:
        return Fit.FULL, -1
    if room.free_pods is not None:
        places = min(places, room.free_pods)
    return Fit.ROOM, (places - cards) * units - room.pending


def needs_whole_card(pod: PodRequest, pool: PoolView) -> bool:
    """Tell whether `pod` needs an unshared card; a scheduler extender knows no such request."""
    return pod.wants_whole_card and not EDITIONS[pool.edition].has_scheduler_extender


def ask_per_card(pod: PodRequest, pool: PoolView) -> tuple[int, int]:
    """Count the units, at least 1, that `pod` needs of one card in `pool`, and of how many."""
    is_extended = EDITIONS[pool.edition].has_scheduler_extender
    counts = pod.memory, pod.card_memory, pod.card_count or 1
    units, cards = count_per_card(*counts, is_extended=is_extended)
    return units or 1, cards


def free_share(room: Room | None, reserved: int) -> float:
    """Return the free part of the memory, from 1 down; below 0 where it is overcommitted."""
    return (room.free - reserved) / room.total if room is not None and room.total else 0.0


_Outcome = tuple[str, Fit, tuple[Reason | None, ...]]
"""Chosen pool, its fit, and the reason why each of the others lost."""
MOST_RANKINGS = 16
"""Kept for each kind of pods: 1 KiB each with 3 pools, 3 KiB with 20, 10 KiB with 100."""
_WORSE = {Fit.CARD: Reason.RESERVED, Fit.UNKNOWN: Reason.CAPACITY_UNKNOWN}
"""A fit that is worse, though nobody knows that there is no room."""
_WITHOUT_PLACE = {Reason.NO_ROOM, Reason.RESERVED, Reason.FULLER}
"""Why a pool loses that may have no room for one more pod."""


class Ranking:
    """The pool that gets the pod, and why."""

    def __init__(
        self,
        pool: PoolView,
        fit: Fit,
        reason: Reason,
        lost: Lost = NONE_LOST,
        *,
        is_known_to_match: bool,
    ):
        self.pool, self.fit, self.reason, self.lost = pool, fit, reason, lost
        """The others, as far as they were looked at."""
        self.is_known_to_match = is_known_to_match
        """Whether a node of the pool is known to satisfy the pod's node selection."""

    @cached_property
    def annotation(self) -> str:
        """Value of `gpushare.io/decision`."""
        return build_annotation(self.reason, self.pool.name, self.lost)


class PoolRanker:
    """Finds the best of the pools that can take the pods of one kind.

    Isolation that nobody asked for in words is a wish, and goes before all else. Then a pool one of
    whose nodes is known to match goes before one where that is not known: on those the pod may
    never run. Then a pool with room goes before one without; then what the pod's node affinity
    prefers; higher priority; the pool of the pod's gang; and the fullest that has room, so that
    large blocks stay whole. Among pools whose room others may take first the emptiest goes first:
    when in doubt, spread. Fit never excludes: a full pool may be one that grows.

    Pods of a gang on their way to a pool are no reason for doubt whether one more has room there.
    """

    def __init__(self, pod: PodRequest, candidates: Sequence[PoolView], lost: Lost = NONE_LOST):
        """Rank at least one candidate; the pools of `lost` are none."""
        candidates = sorted(candidates, key=attrgetter("name"))
        wanted = _list_wanted(pod, candidates)
        # Not the pod itself, with its texts: this is kept.
        self._fits = {pool.name: PoolFit(pod, pool) for pool in wanted or candidates}
        self.is_wanted = bool(wanted)
        """Whether the candidates are of the kind, isolated or not, that the pods seem to want."""
        self._reason = Reason.ROUTED
        if not wanted and not candidates[0].isolates:
            self._reason = Reason.ROUTED_WITHOUT_ISOLATION
        others = [pool for pool in candidates if pool.name not in self._fits]
        if others:
            reason = Reason.ISOLATED if others[0].isolates else Reason.NOT_ISOLATED
            lost = {reason: [pool.name for pool in others], **lost}
        self._lost = lost
        self._rankings: dict[_Outcome, Ranking] = {}
        """Recent rankings: successive pods go to one of a few pools."""

    def count_places(self, name: str) -> int:
        """Count the pods of this kind for which the figures of a candidate show room."""
        return self._fits[name].places

    def find_best(self, reserved: Mapping[str, int], gang: Gang | None = None) -> Ranking:
        """Find the best pool for a pod of this kind, with `reserved` units given away unseen."""
        ranks = [fit.rank(reserved.get(name, 0)) for name, fit in self._fits.items()]
        best = first = min(ranks)
        fit, why = best[1], None
        if gang is not None:
            best, fit, why = self._keep_together(gang, ranks, first, reserved)
        if best is first:
            beaten = [_compare(best, rank) for rank in ranks]
        else:
            beaten = [why if rank < best else _compare(best, rank) for rank in ranks]
        if gang is not None and gang.pools and gang.pools != (best[5],):
            beaten = [
                Reason.GANG_SPLIT if name in gang.pools and reason in _WITHOUT_PLACE else reason
                for name, reason in zip(self._fits, beaten, strict=True)
            ]
        outcome = (best[5], fit, tuple(beaten))
        if (ranking := self._rankings.get(outcome)) is None:
            if len(self._rankings) == MOST_RANKINGS:
                self._rankings.clear()
            ranking = self._rankings[outcome] = self._build_ranking(outcome)
        return ranking

    def _keep_together(
        self, gang: Gang, ranks: Sequence[Rank], first: Rank, reserved: Mapping[str, int]
    ) -> tuple[Rank, Fit, Reason]:
        """Find the pool for a pod of `gang`: its rank and fit, and why better ranks lose."""
        home = gang.pools[-1] if gang.pools else ""
        if self._has_place(home, reserved):
            rank = self._fits[home].rank(reserved.get(home, 0))
            if (rank[0], Fit.ROOM, *rank[2:4]) <= first[:4]:
                return rank, Fit.ROOM, Reason.GANG_ELSEWHERE
        best = first if gang.size == 1 else self._find_roomy(gang, ranks, first, reserved)
        return best, best[1], Reason.GANG_TOO_LARGE

    def _find_roomy(
        self, gang: Gang, ranks: Sequence[Rank], first: Rank, reserved: Mapping[str, int]
    ) -> Rank:
        """Find the best rank of a pool, equal to `first` so far, with room for all of `gang`.

        Where none has, or nobody says how much that is, half as much as in the roomiest is enough:
        the roomiest itself may be another one after a few pods of the gang.
        """
        places = [
            (self.count_places(rank[5]), rank)
            for rank in ranks
            if rank[:4] == first[:4] and self._has_place(rank[5], reserved)
        ]
        most = max(places)[0] if places else 0
        enough = gang.size if gang.size is not None and gang.size <= most else most / 2
        return min((rank for count, rank in places if count >= enough), default=first)

    def _has_place(self, name: str, reserved: Mapping[str, int]) -> bool:
        """Tell whether the pool has room where exactly `reserved` units are taken."""
        fit = self._fits.get(name)
        return fit is not None and fit.judge(reserved.get(name, 0), doubt=1) is Fit.ROOM

    def _build_ranking(self, outcome: _Outcome) -> Ranking:
        name, fit, beaten = outcome
        lost: defaultdict[Reason, list[str]] = defaultdict(list)
        for why, other in zip(beaten, self._fits, strict=True):
            if why is not None:
                lost[why].append(other)
        all_lost = {**dict(sorted(lost.items())), **self._lost}
        best = self._fits[name]
        return Ranking(
            best.pool, fit, self._reason, all_lost, is_known_to_match=best.is_known_to_match
        )


def _list_wanted(pod: PodRequest, candidates: Sequence[PoolView]) -> Sequence[PoolView]:
    """List the pools that suit the pod's isolation; all of them where its annotation says which."""
    if pod.isolation in (names.ISOLATION_REQUIRED, names.ISOLATION_NONE):
        return candidates
    return [pool for pool in candidates if pool.isolates is not pod.disables_isolation]


def _compare(best: Rank, other: Rank) -> Reason | None:
    """Tell why `other` lost; None for the best itself."""
    if other is best:
        return None
    if other[0] == 1 > best[0]:
        return Reason.NODE_LABELS_UNKNOWN
    if other[1] is not best[1]:
        return _WORSE.get(other[1], Reason.NO_ROOM)
    if other[2] != best[2]:
        return Reason.LESS_PREFERRED
    if other[3] != best[3]:
        return Reason.LOWER_PRIORITY
    if other[4] != best[4]:
        return Reason.FULLER if best[1] is Fit.CARD else Reason.LESS_FULL
    return Reason.LATER_NAME
