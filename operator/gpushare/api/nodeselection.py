"""Where a pod's owner lets it run: its node selector and its required node affinity.

As kube-scheduler reads them ("Assigning Pods to Nodes" in the Kubernetes documentation): the node
selector and one of the affinity's terms must hold, and of a term every requirement.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from gpushare import names

NODE_NAME = "metadata.name"
"""The one field of a node that a term can ask about."""
HOSTNAME = "kubernetes.io/hostname"
CHOOSING = names.MODE_LABELS | {names.LABEL_POOL}
"""Labels by which a pod chooses its pool; placement is about cards, not about pools."""
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Demand:
    """Everything that a node selector or a term asks of one label."""

    among: frozenset[str] | None = None
    """In: the values that all of them allow; None where any will do."""
    not_among: frozenset[str] = frozenset()
    """NotIn: it may also be absent."""
    above: int | None = None
    below: int | None = None
    is_present: bool = False
    is_absent: bool = False

    def __and__(self, other: "Demand") -> "Demand":
        return Demand(
            other.among if self.among is None else
            self.among if other.among is None else self.among & other.among,
            self.not_among | other.not_among,
            max((bound for bound in (self.above, other.above) if bound is not None), default=None),
            min((bound for bound in (self.below, other.below) if bound is not None), default=None),
            self.is_present or other.is_present,
            self.is_absent or other.is_absent,
        )  # fmt: skip

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


ABSENT = Demand(is_absent=True)
PRESENT = Demand(is_present=True)
NEVER = Demand(among=frozenset(), is_present=True)
"""What Kubernetes will refuse: an operator that there is not, a bound that is no number."""


def demand_one_of(values: Iterable[str]) -> Demand:
    """What In asks."""
    return Demand(among=frozenset(values), is_present=True)


def demand(operator: object, values: Iterable[str]) -> Demand:
    """What one requirement with one of Kubernetes' operators asks of its label."""
    match operator:
        case "In":
            return demand_one_of(values)
        case "NotIn":
            return Demand(not_among=frozenset(values))
        case "Exists":
            return PRESENT
        case "DoesNotExist":
            return ABSENT
        case "Gt" | "Lt":
            bounds = [_parse_number(value) for value in values]
            if len(bounds) == 1 and bounds[0] is not None:
                if operator == "Gt":
                    return replace(PRESENT, above=bounds[0])
                return replace(PRESENT, below=bounds[0])
    return NEVER


def _parse_number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and _WHOLE_NUMBER.fullmatch(text) else None


Term = Mapping[str, Demand]
"""By label key; all must hold."""
Known = Mapping[str, tuple[str | None, ...]]
"""What is known of nodes' labels: by key the values that one may have, None for its absence. A
label that is not listed may have any."""


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """What must hold of a node: all of `labels`, and one of the `terms`."""

    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS, hash=False)
    """The node selector."""
    terms: tuple[Term, ...] | None = field(default=None, hash=False)
    """Required node affinity, where there is any; of an empty one no term can hold."""

    @property
    def chosen_keys(self) -> tuple[str, ...]:
        """Labels of ours that it asks for; to avoid a value of one is not to choose."""
        return tuple(sorted(key for key in CHOOSING if self._asks_for(key)))

    @property
    def names_node(self) -> bool:
        """Whether it asks for nodes by their names; to avoid one is not to choose."""
        return HOSTNAME in self.labels or any(
            key in term and term[key].among is not None
            for term in self.terms or ()
            for key in (NODE_NAME, HOSTNAME)
        )

    @property
    def contradicts_itself(self) -> bool:
        """Whether no node could ever satisfy it."""
        return self.terms is not None and all(
            any(self._join(key, asked).contradicts_itself for key, asked in term.items())
            for term in self.terms
        )

    def may_hold(self, known: Known) -> bool:
        """Whether it may be satisfied by a node of whose labels this is known."""
        for key, value in self.labels.items():
            if key in known and value not in known[key]:
                return False
        return self.terms is None or any(self._may_hold(term, known) for term in self.terms)

    def _may_hold(self, term: Term, known: Known) -> bool:
        for key, asked in term.items():
            if key in known and not any(map(self._join(key, asked).admits, known[key])):
                return False
        return True

    def _asks_for(self, key: str) -> bool:
        return key in self.labels or any(
            key in term and term[key].is_present for term in self.terms or ()
        )

    def _join(self, key: str, asked: Demand) -> Demand:
        """With what the node selector asks of the same label."""
        value = self.labels.get(key)
        return asked if value is None else asked & demand_one_of((value,))


ANYWHERE = NodeSelection()


def join_term(requirements: Iterable[tuple[str, Demand]]) -> Term:
    """The term of these requirements, by key."""
    term: dict[str, Demand] = {}
    for key, asked in requirements:
        term[key] = term[key] & asked if key in term else asked
    return term
