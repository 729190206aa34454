"""The annotation `gpushare.io/decision` of a pod: what admission decided when it was created."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gpushare import names

MAX_DECISION = 1024
"""Bytes of the annotation; what is longer is not ours."""


@dataclass(frozen=True, slots=True)
class PastDecision:
    """What the annotation says; anybody may have written it."""

    reason: str
    pool: str | None = None
    lost: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By reason, names of pools that did not get the pod."""
    more: int = 0
    """Pools that did not, and for which there was no space."""

    @property
    def ranked_pools(self) -> tuple[str, ...]:
        """Those that could take the pod and were ranked behind its own."""
        return tuple(
            pool for reason in self.lost if reason in names.RANKED for pool in self.lost[reason]
        )


def parse_past_decision(annotations: Mapping[str, str]) -> PastDecision | None:
    """Read the decision from a pod's annotations; None where there is none that can be parsed."""
    text = annotations.get(names.ANNOTATION_DECISION, "")
    if not 0 < len(text) <= MAX_DECISION:
        return None
    try:
        said: Any = orjson.loads(text)
        lost = said.get("lost") or {}
        return PastDecision(
            reason=str(said["reason"]),
            pool=str(said["pool"]) if said.get("pool") else None,
            lost={str(why): tuple(map(str, pools)) for why, pools in lost.items()},
            more=int(said.get("more") or 0),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None
