"""Reads the annotation `gpushare.io/decision` of a pod: admission's decision at its creation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gpushare import names

MAX_DECISION = 1024
"""Limit of the annotation in bytes; a longer one is not ours."""


@dataclass(frozen=True, slots=True)
class PastDecision:
    """Content of the annotation, which anybody may have written."""

    reason: str
    pool: str | None = None
    lost: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of pools that did not get the pod, by reason."""
    more: int = 0
    """Number of further such pools, for which there was no space."""

    @property
    def ranked_pools(self) -> tuple[str, ...]:
        """Pools that could take the pod and were ranked behind the chosen one."""
        return tuple(
            pool for reason in self.lost if reason in names.RANKED for pool in self.lost[reason]
        )


def parse_past_decision(annotations: Mapping[str, str]) -> PastDecision | None:
    """Parse the decision in a pod's annotations; None where it is absent or invalid."""
    text = annotations.get(names.ANNOTATION_DECISION, "")
    if not 0 < len(text) <= MAX_DECISION:
        return None
    try:
        fields: Any = orjson.loads(text)
        lost = fields.get("lost") or {}
        return PastDecision(
            reason=str(fields["reason"]),
            pool=str(fields["pool"]) if fields.get("pool") else None,
            lost={str(why): tuple(map(str, pools)) for why, pools in lost.items()},
            more=int(fields.get("more") or 0),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None
