"""What admission answers about a pod, and how it says so: sentences, and the pod's annotation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from gpushare.api.podrequest import MAX_DECISION
from gpushare.names import Reason

MAX_WARNING = 256
"""Bytes of a warning; the API server may cut what is longer ("Dynamic Admission Control")."""
MAX_MESSAGE = 2048
"""Bytes of a refusal, which nobody cuts."""
_ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a pod goes, if anywhere, and why."""

    reason: Reason
    message: str
    pool: str | None = None
    selector: tuple[tuple[str, str], ...] = ()
    """To be added to the node selector; keys that are not there."""
    tolerations: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """To be added where they are missing."""
    annotation: str = ""
    """Value of `gpushare.io/decision`; empty: none is written."""
    warnings: tuple[str, ...] = ()
    """Sentences for who created the pod."""
    is_refused: bool = False
    """The pod must not be created."""
    booked: int = 0
    """Units of gpu-mem that it takes of `pool`."""


def cut(text: str, limit: int = MAX_WARNING) -> str:
    """`text` within `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit or len(encoded := text.encode(errors="replace")) <= limit:
        return text
    return encoded[: limit - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS


def list_causes(head: str, causes: Sequence[str], advice: str, limit: int) -> str:
    """A sentence with as many of the causes as `limit` bytes hold; the others are counted."""
    for shown in range(len(causes), -1, -1):
        more = [f"{len(causes) - shown} more"] if shown < len(causes) else []
        text = f"{head}: {'; '.join((*causes[:shown], *more))}. {advice}"
        if len(text.encode()) <= limit:
            return text
    return cut(text, limit)


def build_annotation(
    reason: Reason, pool: str | None = None, lost: Iterable[tuple[Reason, str]] = ()
) -> str:
    """Value of `gpushare.io/decision`: compact JSON of at most `MAX_DECISION` bytes.

    By reason the names of the pools that did not get the pod, so that "why not that one" has an
    answer; those that do not fit are counted.
    """
    losers = sorted(lost)
    decision: dict[str, Any] = {"v": 1, "reason": reason}
    if pool is not None:
        decision["pool"] = pool
    for shown in range(len(losers), -1, -1):
        if losers:
            by_reason: dict[str, list[str]] = {}
            for why, name in losers[:shown]:
                by_reason.setdefault(why.value, []).append(name)
            decision["lost"] = by_reason
        if shown < len(losers):
            decision["more"] = len(losers) - shown
        encoded = orjson.dumps(decision)
        if len(encoded) <= MAX_DECISION:
            break
    return encoded.decode()
