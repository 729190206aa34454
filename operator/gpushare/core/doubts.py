"""What is doubtful in a pod, wherever it goes: sentences for who created it."""

from collections.abc import Iterator

from gpushare import names
from gpushare.api.podrequest import PodRequest
from gpushare.api.pool import Edition
from gpushare.core.case import Case
from gpushare.core.fit import Fit, ask_per_card
from gpushare.core.poolview import PoolView

_ISOLATIONS = ("", names.ISOLATION_REQUIRED, names.ISOLATION_NONE)


def find_doubts(pod: PodRequest) -> Iterator[str]:
    """What is doubtful in whatever pool."""
    if pod.isolation not in _ISOLATIONS:
        yield (
            f"annotation {names.ANNOTATION_ISOLATION} is neither {names.ISOLATION_REQUIRED} nor "
            f"{names.ISOLATION_NONE}, and was ignored"
        )
    if names.RESOURCE_GPU_CORE in pod.requests and not pod.memory:
        yield (
            f"{names.RESOURCE_GPU_CORE} without {names.RESOURCE_GPU_MEMORY}: the scheduler gives "
            "a card only to pods that ask for both"
        )
    if pod.limits_card_count:
        yield (
            f"the resource {names.RESOURCE_GPU_COUNT} gives no card, and lets only one such pod "
            "run for each card of a node; take it out of the limits"
        )
    if pod.sees_other_cards:
        yield (
            f"a container sets {names.ENV_VISIBLE_DEVICES} itself, so it may see other cards than "
            "the pod was given; take the variable out"
        )


def find_doubts_in(case: Case, pool: PoolView) -> Iterator[str]:
    """What is doubtful in `pool`, to which the pod is sent."""
    pod = case.pod
    if not pod.asks_for_share:
        return
    if pool.edition is Edition.PROFESSIONAL:
        yield from _find_card_count_doubts(pod)
    else:
        if names.LABEL_CARD_COUNT in pod.labels:
            yield (
                f"the label {names.LABEL_CARD_COUNT} means nothing in pool {pool.name}: the "
                f"{pool.edition} edition spreads no pod over cards"
            )
        if len(pod.shares) > 1:
            yield (
                f"{len(pod.shares)} containers ask for {names.RESOURCE_GPU_MEMORY}: the "
                f"{pool.edition} edition finds no card for such a pod on a node with several; "
                "let one container ask"
            )
    if (waits := _explain_wait(case, pool)) is not None:
        yield f"sent to pool {pool.name}, where it may wait: {waits}"


def _find_card_count_doubts(pod: PodRequest) -> Iterator[str]:
    cards = pod.card_count
    if cards is None:
        yield f"the label {names.LABEL_CARD_COUNT} must be a whole number above 0"
    elif any(share % cards for share in pod.shares):
        yield (
            f"the {names.RESOURCE_GPU_MEMORY} of each container must be divisible by the label "
            f"{names.LABEL_CARD_COUNT}, which is {cards}; else no node takes the pod"
        )


def _explain_wait(case: Case, pool: PoolView) -> str | None:
    asked, _ = ask_per_card(case.pod, pool)
    match case.judge_fit(pool):
        case Fit.UNKNOWN:
            return "what room it has is not known yet"
        case Fit.FULL:
            return f"no card has {asked} free now; it goes on when other pods finish"
        case Fit.TOO_LARGE if not pool.nodes:
            return "it has no nodes yet"
        case Fit.TOO_LARGE:
            return f"it asks for {asked} on one card, and the largest card has less; ask for less"
    return None
