"""What a node selector, or a term of a node affinity, asks of one node label."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Demand:
    """All requirements on one label together, as kube-scheduler reads each of them.

    "Assigning Pods to Nodes" in the Kubernetes documentation. NotIn and DoesNotExist also hold
    where the label is absent; the others need it.
    """

    among: frozenset[str] | None = None
    """In: the values that all of them allow; None where any will do."""
    not_among: frozenset[str] = frozenset()
    """NotIn."""
    above: int | None = None
    below: int | None = None
    is_present: bool = False
    is_absent: bool = False

    def admits(self, value: str | None) -> bool:
        """Whether a node with this value of the label will do; None: without the label."""
        if value is None:
            return not self.is_present
        if self.is_absent or value in self.not_among:
            return False
        if self.among is not None and value not in self.among:
            return False
        if self.above is None and self.below is None:
            return True
        number = _parse_number(value)
        return number is not None and (
            (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    @property
    def contradicts_itself(self) -> bool:
        """Whether no value can satisfy it, nor the label's absence."""
        if not self.is_present:
            return False
        if self.is_absent:
            return True
        if self.among is not None:
            return not any(map(self.admits, self.among))
        if self.above is None or self.below is None:
            return False
        # A number has many spellings (5, 05, +5): NotIn can't name them all.
        return self.below - self.above < 2


_PRESENT = Demand(is_present=True)
_ABSENT = Demand(is_absent=True)
_NEVER = Demand(among=frozenset(), is_present=True)


def parse_demand(operator: object, values: Iterable[str]) -> Demand:
    """What one requirement asks of its label.

    One that Kubernetes will refuse, such as an operator that there is not, is never satisfied.
    """
    match operator:
        case "In":
            return Demand(among=frozenset(values), is_present=True)
        case "NotIn":
            return Demand(not_among=frozenset(values))
        case "Exists":
            return _PRESENT
        case "DoesNotExist":
            return _ABSENT
        case "Gt":
            bound = _parse_bound(values)
            return _NEVER if bound is None else Demand(above=bound, is_present=True)
        case "Lt":
            bound = _parse_bound(values)
            return _NEVER if bound is None else Demand(below=bound, is_present=True)
    return _NEVER


def _parse_bound(values: Iterable[str]) -> int | None:
    bounds = [_parse_number(value) for value in values]
    return bounds[0] if len(bounds) == 1 else None


def _parse_number(text: str) -> int | None:
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def join_demands(demands: Sequence[Demand]) -> Demand:
    """What all of them ask of the one label."""
    if len(demands) == 1:
        return demands[0]
    among = [demand.among for demand in demands if demand.among is not None]
    return Demand(
        among=frozenset.intersection(*among) if among else None,
        not_among=frozenset().union(*(demand.not_among for demand in demands)),
        above=max((d.above for d in demands if d.above is not None), default=None),
        below=min((d.below for d in demands if d.below is not None), default=None),
        is_present=any(demand.is_present for demand in demands),
        is_absent=any(demand.is_absent for demand in demands),
    )
