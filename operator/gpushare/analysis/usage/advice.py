"""Decides what a workload should ask for: the first rule that applies."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from gpushare.analysis.usage.card_pods import CardPod

UNUSED_BYTES = 32 * 2**20
"""What a card shows that no process uses; a CUDA context alone takes more than 100 MiB."""
_AT_LIMIT = 0.95
"""Part of the request from which on an isolated workload may be held back by it."""
_WORTH_SHARING = 0.5
"""Part of a card that may be asked for at most, so that two fit on one."""


class AdviceCode(StrEnum):
    """What is said of a workload; docs/usage.md explains each."""

    CARD_SHARED = "CardShared"
    NOT_MEASURED = "NotMeasured"
    IMPLAUSIBLE = "Implausible"
    NODE_UNREAD = "NodeUnread"
    SIZE_UNKNOWN = "SizeUnknown"
    ABOVE_REQUEST = "AboveRequest"
    CRASHES = "Crashes"
    PARTLY_MEASURED = "PartlyMeasured"
    TOO_LITTLE_DATA = "TooLittleData"
    NEVER_USED = "NeverUsed"
    AT_LIMIT = "AtLimit"
    SHARE_CARD = "ShareCard"
    SEVERAL_CONTAINERS = "SeveralContainers"
    LOWER = "Lower"
    FITS = "Fits"


_CHANGES = (AdviceCode.ABOVE_REQUEST, AdviceCode.SHARE_CARD)


@dataclass(frozen=True, slots=True)
class WorkloadFigures:
    """All that the advice for a workload depends on."""

    pod: CardPod
    """One that stands for all: with the largest request, isolated where all are, crashing where one
    is."""
    peak_bytes: float | None
    """The most that any of its pods used; None where nothing is known."""
    card_peak_bytes: float
    """The most that any of them used of one card."""
    observed_seconds: float
    """Time in which at least one of its pods was seen; at most the age of the oldest that is there,
    since before it the request may have been another. Pods of Jobs have no such bound."""
    has_only_card_series: bool = False
    """Whether only the whole card is reported, which others use too."""
    is_plausible: bool = True
    """Whether all values were such that a card can have."""
    is_complete: bool = True
    """Whether each of its pods was reported, and Prometheus says of no part that it is missing."""

    @property
    def needed_bytes(self) -> float:
        """What it needs where each of its cards gets as much as the fullest one."""
        return max(self.peak_bytes or 0.0, self.card_peak_bytes * self.pod.cards)


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """What a user may set."""

    headroom: float = 0.2
    """Part of the peak that is added to it; at least one unit."""
    min_data_seconds: float = 24 * 3600.0
    """Time that a workload must have been observed before it is told to ask for less."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to ask for, and why; or why there is no advice."""

    code: AdviceCode
    units: int | None = None
    """Memory to ask for; None where the request should stay, or nothing is said of it."""


def advise(workload: WorkloadFigures, options: AdviceOptions) -> Advice:
    """Decide what a workload should ask for.

    It is never less than its peak, unless no card has that; never more than its cards have; and
    never less with more headroom.
    """
    for applies, code in _RULES:
        if applies(workload, options):
            return Advice(code, find_target(workload, options) if code in _CHANGES else None)
    return Advice(AdviceCode.LOWER, find_target(workload, options))


def find_target(workload: WorkloadFigures, options: AdviceOptions) -> int:
    """Return the peak with its headroom in whole units, the same on each card; at most the whole
    card, if that is known."""
    pod, peak = workload.pod, workload.needed_bytes
    with_headroom = peak + max(peak * options.headroom, pod.bytes_per_unit)
    per_card = ceil(with_headroom / pod.bytes_per_unit / pod.cards)
    return min(per_card, pod.card_units or per_card) * pod.cards


def _uses_more(workload: WorkloadFigures, options: AdviceOptions) -> bool:
    pod = workload.pod
    # A whole card shows a little more than the whole units that its plugin counts.
    is_bounded = pod.is_isolated or pod.is_whole or find_target(workload, options) <= pod.units
    return not is_bounded and (workload.peak_bytes or 0.0) > pod.asked_bytes


def _is_at_limit(workload: WorkloadFigures, options: AdviceOptions) -> bool:
    pod = workload.pod
    return pod.is_isolated and workload.needed_bytes >= _AT_LIMIT * pod.asked_bytes


def _could_share(workload: WorkloadFigures, options: AdviceOptions) -> bool:
    pod, target = workload.pod, find_target(workload, options)
    return pod.is_whole and pod.cards == 1 and target <= _WORTH_SHARING * pod.card_units


_RULES: tuple[tuple[Callable[[WorkloadFigures, AdviceOptions], bool], AdviceCode], ...] = (
    (lambda w, o: w.has_only_card_series, AdviceCode.CARD_SHARED),
    (lambda w, o: w.peak_bytes is None, AdviceCode.NOT_MEASURED),
    (lambda w, o: not w.is_plausible, AdviceCode.IMPLAUSIBLE),
    (lambda w, o: not w.pod.is_node_known, AdviceCode.NODE_UNREAD),
    (lambda w, o: not w.pod.units, AdviceCode.SIZE_UNKNOWN),
    # More is safe, so it needs no day of data.
    (_uses_more, AdviceCode.ABOVE_REQUEST),
    (lambda w, o: w.pod.is_crashing, AdviceCode.CRASHES),
    (lambda w, o: not w.is_complete, AdviceCode.PARTLY_MEASURED),
    (lambda w, o: w.observed_seconds < o.min_data_seconds, AdviceCode.TOO_LITTLE_DATA),
    (lambda w, o: (w.peak_bytes or 0.0) < UNUSED_BYTES, AdviceCode.NEVER_USED),
    (_is_at_limit, AdviceCode.AT_LIMIT),
    (_could_share, AdviceCode.SHARE_CARD),
    (lambda w, o: w.pod.is_whole or find_target(w, o) >= w.pod.units, AdviceCode.FITS),
    # How much each of them uses is known, but not how their limits are to be divided.
    (lambda w, o: not w.pod.is_single, AdviceCode.SEVERAL_CONTAINERS),
)
"""When each is said, in this order; otherwise `LOWER`."""
