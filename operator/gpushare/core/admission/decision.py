"""The result of admission for a pod: the pool, the messages, and the pod's annotation."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from gpushare.api.decision_annotation import MAX_DECISION
from gpushare.core.message import cut
from gpushare.names import Reason

MAX_WARNING = 256
"""Bytes of a warning; the API server may cut what is longer ("Dynamic Admission Control")."""
MAX_MESSAGE = 2048
"""Bytes of a refusal, which the API server does not cut."""
_encode = msgspec.json.Encoder().encode
RejectedPools = tuple[Sequence[str], str]
"""Names of pools, and what keeps them from taking the pod."""
Lost = Mapping[Reason, Sequence[str]]
"""Names of the pools that did not get the pod, by reason."""
NONE_LOST: Lost = MappingProxyType({})


class AdmissionDecision(msgspec.Struct, frozen=True):
    """The pool that gets a pod, if any, and the reason."""

    reason: Reason
    message: str
    pool: str | None = None
    selector: tuple[tuple[str, str], ...] = ()
    """Labels to add to the pod's node selector, which lacks their keys."""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    """Tolerations to add to the pod where it lacks them."""
    annotation: str = ""
    """Value of `gpushare.io/decision`; empty: none is written."""
    warnings: tuple[str, ...] = ()
    """Sentences for the user who creates the pod."""
    is_refused: bool = False
    """The pod must not be created."""
    reserved: int = 0
    """Units of gpu-mem that it takes of `pool`."""
    lost: Lost = NONE_LOST
    """Pools that were looked at and did not get it; the annotation has those that fit in there."""

    @property
    def refusal(self) -> str | None:
        """The message with which the pod is refused; None where it is not."""
        return f"{self.reason}: {self.message}" if self.is_refused else None


def sanitize(text: str, limit: int = MAX_WARNING) -> str:
    """Cut `text` to what a header can carry: `limit` bytes of UTF-8, no control characters.

    Names in it may come from the pod, where Kubernetes has not checked them yet.
    """
    if not text.isprintable():
        text = "".join([char if char.isprintable() else "?" for char in text])
    return cut(text, limit, "...")


def join_advice(told: str, advice: str, limit: int) -> str:
    """Join both to at most `limit` bytes; what is told is cut, and the advice stays whole."""
    advice = f". {advice}" if advice else ""
    return sanitize(told, limit - len(advice)) + advice


def list_causes(head: str, causes: Sequence[RejectedPools], advice: str) -> tuple[str, str]:
    """Build a message, and a warning with as many of the causes as it has space for."""
    in_full, in_short = [], []
    for pools, why in causes:
        if (more := len(pools) - 1) == 0:
            in_full.append((f"Pool {pools[0]}: {why}", 1))
            in_short.append(in_full[-1])
        else:
            in_full.append((f"Pools {', '.join(pools)}: {why}", len(pools)))
            in_short.append((f"Pools {pools[0]} and {more} more: {why}", len(pools)))
    return (
        sanitize(_list(head, in_full, advice, MAX_MESSAGE), MAX_MESSAGE),
        sanitize(_list(head, in_short, advice, MAX_WARNING)),
    )


def _list(head: str, causes: Sequence[tuple[str, int]], advice: str, limit: int) -> str:
    room = limit - len(f"{head}. 9999 more pools rejected it. {advice}")
    sentences, left = [head], sum(pools for _, pools in causes)
    for cause, pools in causes:
        room -= len(cause.encode()) + len(". ")
        if room < 0 and len(causes) > 1:
            more = " more" if len(sentences) > 1 else ""
            sentences.append(f"{left}{more} pool{'s' if left > 1 else ''} rejected it")
            break
        sentences.append(cause)
        left -= pools
    return ". ".join([*sentences, advice])


def build_annotation(reason: Reason, pool: str | None = None, lost: Lost = NONE_LOST) -> str:
    """Build the value of `gpushare.io/decision`: compact JSON of at most `MAX_DECISION` bytes.

    It has the names of the pools that did not get the pod, so that "why not that one" has an
    answer; of those at the end that do not fit there is the number.
    """
    decision: dict[str, Any] = {"v": 1, "reason": reason}
    if pool is not None:
        decision["pool"] = pool
    if lost:
        decision["lost"] = lost
    encoded = _encode(decision)
    if len(encoded) > MAX_DECISION:
        encoded = _encode(_shorten(decision))
    return encoded.decode()


def _shorten(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the decision with as many losers as there is space for, and the number of the rest."""
    lost: Lost = decision["lost"]
    kept: dict[Reason, Sequence[str]] = {}
    shortened = {**decision, "lost": kept, "more": 99999}
    room = MAX_DECISION - len(_encode(shortened))
    for why, pools in lost.items():
        room -= len(f'"{why}":,') + len(_encode(pools))
        shown = list(pools)
        while room < 0 and shown:
            room += len(_encode(shown.pop())) + len(",")
        if shown:
            kept[why] = shown
        if len(shown) < len(pools):
            break
    shortened["more"] = sum(map(len, lost.values())) - sum(map(len, kept.values()))
    return shortened
