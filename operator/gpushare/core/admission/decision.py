"""What admission answers about a pod, and how it says so: sentences, and the pod's annotation."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpushare.api.decision_annotation import MAX_DECISION
from gpushare.names import Reason

MAX_WARNING = 256
"""Bytes of a warning; the API server may cut what is longer ("Dynamic Admission Control")."""
MAX_MESSAGE = 2048
"""Bytes of a refusal, which nobody cuts."""
_ELLIPSIS = "..."
_encode = msgspec.json.Encoder().encode
Cause = tuple[Sequence[str], str]
"""Names of pools, and what keeps them from taking the pod."""
Loser = tuple[Reason, str]
"""What a pool lost by, and its name."""


class Decision(msgspec.Struct, frozen=True):
    """Where a pod goes, if anywhere, and why."""

    reason: Reason
    message: str
    pool: str | None = None
    selector: tuple[tuple[str, str], ...] = ()
    """To be added to the node selector; keys that are not there."""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    """To be added where they are missing."""
    annotation: str = ""
    """Value of `gpushare.io/decision`; empty: none is written."""
    warnings: tuple[str, ...] = ()
    """Sentences for who created the pod."""
    is_refused: bool = False
    """The pod must not be created."""
    reserved: int = 0
    """Units of gpu-mem that it takes of `pool`."""
    lost: tuple[Loser, ...] = ()
    """Pools that were looked at and did not get it; the annotation has those that fit in there."""

    @property
    def refusal(self) -> str | None:
        """What the pod's creator is told where it must not be created."""
        return f"{self.reason}: {self.message}" if self.is_refused else None


def cut(text: str, limit: int = MAX_WARNING) -> str:
    """`text` as a header can carry it: at most `limit` bytes of UTF-8, no control characters.

    Names in it may come from the pod, where Kubernetes has not checked them yet.
    """
    if not text.isprintable():
        text = "".join([char if char.isprintable() else "?" for char in text])
    if len(encoded := text.encode()) <= limit:
        return text
    return encoded[: limit - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS


def list_causes(head: str, causes: Sequence[Cause], advice: str) -> tuple[str, str]:
    """A message, and a warning with as much of the causes as that holds."""
    in_full = [f"{', '.join(pools)}: {why}" for pools, why in causes]
    in_short = [
        f"{pools[0]}: {why}" if len(pools) == 1 else f"{pools[0]} and {len(pools) - 1} more: {why}"
        for pools, why in causes
    ]
    return (
        cut(_list(head, in_full, advice, MAX_MESSAGE), MAX_MESSAGE),
        cut(_list(head, in_short, advice, MAX_WARNING)),
    )


def _list(head: str, causes: Sequence[str], advice: str, limit: int) -> str:
    room = limit - len(f"{head}: 9999 more. {advice}")
    shown: list[str] = []
    for cause in causes:
        room -= len(cause.encode()) + len("; ")
        if room < 0 and len(causes) > 1:
            shown.append(f"{len(causes) - len(shown)} more")
            break
        shown.append(cause)
    return f"{head}: {'; '.join(shown) or 'there is none'}. {advice}"


def build_annotation(reason: Reason, pool: str | None = None, lost: Sequence[Loser] = ()) -> str:
    """Value of `gpushare.io/decision`: compact JSON of at most `MAX_DECISION` bytes.

    By reason the names of the pools that did not get the pod, so that "why not that one" has an
    answer; of those at the end that do not fit there is the number.
    """
    decision: dict[str, Any] = {"v": 1, "reason": reason}
    if pool is not None:
        decision["pool"] = pool
    if lost:
        by_reason: dict[Reason, list[str]] = {}
        for why, name in lost:
            by_reason.setdefault(why, []).append(name)
        decision["lost"] = by_reason
    encoded = _encode(decision)
    if len(encoded) > MAX_DECISION:
        encoded = _encode(_shorten(decision))
    return encoded.decode()


def _shorten(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    """The decision with as many of the losers as there is space for, and the number of the rest."""
    kept: dict[str, list[str]] = {}
    shortened = {**decision, "lost": kept, "more": 99999}
    room = MAX_DECISION - len(_encode(shortened))
    losers = [(why, name) for why, names in decision["lost"].items() for name in names]
    for count, (why, name) in enumerate(losers):
        room -= len(_encode(name)) + len(",")
        if why not in kept:
            room -= len(f'"{why}":[],')
        if room < 0:
            shortened["more"] = len(losers) - count
            break
        kept.setdefault(why, []).append(name)
    return shortened
