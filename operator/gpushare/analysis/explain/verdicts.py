"""Explains for each pool whether it gets a pod, or by which reason and number it does not."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from gpushare import names
from gpushare.api.suggestion import suggest
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.filter import (
    explain_rejection,
    find_rejection,
    find_selected_misfit,
)
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import AdmissionRequest
from gpushare.core.admission.score import Fit, ask_per_card, free_share, judge_fit, needs_whole_card
from gpushare.names import Reason

_RANK = {
    Reason.LESS_FULL: "the fullest pool with room goes first",
    Reason.FULLER: "the emptiest pool goes first where other pods may take the card",
}


class PoolOutcome(StrEnum):
    """The outcome of a pool."""

    CHOSEN = "chosen"
    """The pool gets the pod."""
    SELECTED = "selected"
    """The pod's owner chose it, perhaps with others."""
    LOST = "lost"
    ASIDE = "aside"
    """The pool was not considered."""


@dataclass(frozen=True, slots=True)
class RankingFigures:
    """The numbers that pools are compared by; memory in `unit`."""

    fit: Fit
    asked: int
    """Units requested of each of `cards` cards."""
    cards: int
    largest_free_block: int
    """The largest free block."""
    free: int
    """Free memory without the requests of waiting pods; below 0 where these are larger."""
    total: int
    largest_card: int
    unit: str


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """The verdict on one pool."""

    pool: str
    outcome: PoolOutcome
    reason: Reason | None
    """Reason why the pool did not get the pod."""
    message: str
    view: PoolView | None = None
    """The pool as admission sees it; None for a pool that does not exist."""
    figures: RankingFigures | None = None
    """Figures of the ranking; None where the pod requests no GPU memory, or the pool's room is not
    known."""


def list_verdicts(
    request: AdmissionRequest, decision: AdmissionDecision
) -> tuple[PoolVerdict, ...]:
    """List a verdict for each pool of `request`, on which `decision` was made, and for requested
    pools that do not exist; the one that gets the pod first, then by name."""
    verdicts = [*_judge_all(request, decision), *_judge_missing(request, decision)]
    return tuple(sorted(verdicts, key=lambda v: (v.outcome is not PoolOutcome.CHOSEN, v.pool)))


def _judge_all(request: AdmissionRequest, decision: AdmissionDecision) -> Iterator[PoolVerdict]:
    lost = {name: reason for reason, pools in decision.lost.items() for name in pools}
    winner = request.find(decision.pool) if decision.pool is not None else None
    for pool in request.pools:
        reason = lost.get(pool.name)
        if pool is winner:
            outcome, message = PoolOutcome.CHOSEN, _explain_win(request, pool, decision)
        elif reason is not None:
            outcome, message = PoolOutcome.LOST, _explain_loss(request, pool, winner, reason)
        elif decision.reason is Reason.ALREADY_SELECTS:
            outcome, reason, message = _judge_selected(request, pool)
        else:
            outcome, message = PoolOutcome.ASIDE, _explain_aside(request, decision)
        yield PoolVerdict(pool.name, outcome, reason, message, pool, measure(request, pool))


def _judge_missing(request: AdmissionRequest, decision: AdmissionDecision) -> Iterator[PoolVerdict]:
    known = [pool.name for pool in request.pools]
    asked = set(_list_lost(decision)) | request.pod.selection.find_values(names.LABEL_POOL)
    for name in asked.difference(known):
        message = f"{explain_rejection(None, request, None)}{suggest(name, known)}"
        yield PoolVerdict(name, PoolOutcome.LOST, Reason.POOL_NOT_FOUND, message)


def _list_lost(decision: AdmissionDecision) -> Iterator[str]:
    return chain.from_iterable(decision.lost.values())


def measure(request: AdmissionRequest, pool: PoolView) -> RankingFigures | None:
    """Measure one pool for the pod of `request`."""
    room = pool.room
    if room is None or not request.pod.memory:
        return None
    asked, cards = ask_per_card(request.pod, pool)
    return RankingFigures(
        fit=judge_fit(request.pod, pool, request.reserved.get(pool.name, 0)),
        asked=asked,
        cards=cards,
        largest_free_block=room.free_blocks[0][0] if room.free_blocks else 0,
        free=room.free - request.reserved.get(pool.name, 0),
        total=room.total,
        largest_card=room.largest_card,
        unit=room.unit,
    )


def _explain_win(request: AdmissionRequest, pool: PoolView, decision: AdmissionDecision) -> str:
    match decision.reason:
        case Reason.ROUTED_ON_REQUEST:
            why = f"requested by the pod's annotation {names.ANNOTATION_POOL}"
        case Reason.ROUTED_BY_NAMESPACE:
            why = f"default pool of namespace {request.namespace.name}"
        case _:
            losers = map(request.find, _list_lost(decision))
            could = any(loser and _is_candidate(request, loser) for loser in losers)
            why = "ranked first" if could else "no other pool accepts the pod"
    return f"{why}: {_explain_fit(request, pool)}" if request.pod.memory else why


def _is_candidate(request: AdmissionRequest, pool: PoolView) -> bool:
    """Tell whether the pool was ranked: nothing rejects it, and it takes unasked pods."""
    return find_rejection(request, pool) is None and not pool.on_request


def _explain_loss(
    request: AdmissionRequest, pool: PoolView, winner: PoolView | None, reason: Reason
) -> str:
    if winner is None or not _is_candidate(request, pool):
        return explain_rejection(reason, request, pool)
    match reason:
        case Reason.NOT_ISOLATED:
            return (
                f"its mode {pool.schedule} does not isolate GPU memory, but {winner.name} "
                f"({winner.schedule}) does"
            )
        case Reason.ISOLATED:
            return (
                f"its mode {pool.schedule} isolates, but the pod disables isolation "
                f"({names.ENV_CGPU_DISABLE}), and {winner.name} ({winner.schedule}) does not "
                "isolate"
            )
        case Reason.NODE_LABELS_UNKNOWN:
            keys = ", ".join(request.pod.selection.needed_keys)
            return f"no node is known to have the labels that the pod selects ({keys})"
        case Reason.GANG_TOO_LARGE:
            return f"it has less room for the pod's whole gang than {winner.name}"
        case Reason.NO_ROOM | Reason.RESERVED | Reason.CAPACITY_UNKNOWN:
            fits = _explain_fit(request, pool), _explain_fit(request, winner)
            return f"{fits[0]}. Pool {winner.name}: {fits[1]}"
        case Reason.LESS_PREFERRED:
            weights = [each.weigh(request.pod.preferences) for each in (pool, winner)]
            return (
                "of the pod's preferred node affinity its weights add up to "
                f"{weights[0]}, {weights[1]} in {winner.name}"
            )
        case Reason.LOWER_PRIORITY:
            return f"its priority is {pool.priority}, {winner.name} has {winner.priority}"
        case Reason.LESS_FULL | Reason.FULLER:
            free, winners = _tell_free(request, pool), _tell_free(request, winner)
            return f"{free} of its memory is free, {winners} in {winner.name}: {_RANK[reason]}"
        case _:
            return f"equal to {winner.name} in room, priority and fill, but its name sorts later"


def _judge_selected(
    request: AdmissionRequest, pool: PoolView
) -> tuple[PoolOutcome, Reason | None, str]:
    if (misfit := find_selected_misfit(request.pod, pool)) is not None:
        return PoolOutcome.LOST, misfit, explain_rejection(misfit, request, pool)
    message = "selected by the pod's node selector or affinity"
    if request.pod.memory:
        message = f"{message}: {_explain_fit(request, pool)}"
    return PoolOutcome.SELECTED, None, message


def _explain_aside(request: AdmissionRequest, decision: AdmissionDecision) -> str:
    asked = request.pod.pool
    if asked and asked in (decision.pool, *_list_lost(decision)):
        return f"not considered: the pod requests pool {asked}"
    if decision.reason is Reason.ROUTED_BY_NAMESPACE:
        return f"not considered: {request.namespace.default_pool} is the default of its namespace"
    return f"not considered ({decision.reason})"


def _explain_fit(request: AdmissionRequest, pool: PoolView) -> str:
    """Say what room `pool` has for the pod, with the number that decides."""
    if pool.nodes == 0:
        return "it has no node with usable cards yet"
    if pool.room is None or (figures := measure(request, pool)) is None:
        return "its free memory is not known yet"
    asked, unit = f"{figures.asked} {figures.unit}", figures.unit
    if needs_whole_card(request.pod, pool):
        asked = f"a whole card with {asked}"
    if figures.cards > 1:
        asked = f"{asked} on each of {figures.cards} cards"
    largest = f"largest free block {figures.largest_free_block} {unit}"
    match figures.fit:
        case Fit.ROOM:
            return f"it has room for {asked} ({largest})"
        case Fit.CARD:
            return f"it has {asked} ({largest}), but other pods may take the card first"
        case Fit.TOO_LARGE:
            return (
                f"no card is large enough for {asked} (largest card {figures.largest_card} {unit})"
            )
        case _:
            return f"it has no room for {asked} now ({largest})"


def _tell_free(request: AdmissionRequest, pool: PoolView) -> str:
    return f"{free_share(pool.room, request.reserved.get(pool.name, 0)):.0%}"
