"""Parses a PodDisruptionBudget: which pods may be evicted now."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpushare.api.selector import (
    LabelSelector,
    SelectorOperator,
    SelectorRequirement,
    matches_selector,
)


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """The pods of a PodDisruptionBudget, and how many of them may be evicted now."""

    namespace: str
    name: str
    selector: LabelSelector | None = field(hash=False)
    """None selects no pod, an empty one all of the namespace (policy/v1)."""
    allowed: int = 0

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether it covers a pod of this namespace with these labels."""
        if self.selector is None or namespace != self.namespace:
            return False
        return matches_selector(self.selector, labels)


def parse_disruption_budget(raw: Mapping[str, Any]) -> DisruptionBudget:
    """Parse a PodDisruptionBudget from the API server's JSON.

    While its status is of an older spec, the API server refuses every eviction.
    """
    metadata, status = raw["metadata"], raw.get("status") or {}
    is_current = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    return DisruptionBudget(
        metadata["namespace"],
        metadata["name"],
        _read_selector((raw.get("spec") or {}).get("selector")),
        status.get("disruptionsAllowed", 0) if is_current else 0,
    )


def _read_selector(raw: Mapping[str, Any] | None) -> LabelSelector | None:
    """Read a selector without the limits of a pool's; None also where the API server, which then
    selects nothing, would not understand it."""
    if raw is None:
        return None
    try:
        requirements = tuple(
            SelectorRequirement.model_construct(
                key=each["key"],
                operator=SelectorOperator(each["operator"]),
                values=tuple(each.get("values") or ()),
            )
            for each in raw.get("matchExpressions") or ()
        )
    except ValueError:
        return None
    labels = raw.get("matchLabels") or {}
    return LabelSelector.model_construct(match_labels=labels, match_expressions=requirements)
