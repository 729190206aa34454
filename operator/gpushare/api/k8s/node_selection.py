"""The nodes on which a pod's owner lets it run, and which it prefers: node selector and affinity.

As kube-scheduler reads them ("Assigning Pods to Nodes" in the Kubernetes documentation): all of the
node selector must hold, and one of the affinity's terms; of a term every requirement.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from gpushare import names
from gpushare.api.k8s.pod_shape import Requirement, Spec
from gpushare.api.k8s.pod_shape import Term as ShapeOfTerm

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
        """Tell whether a node with this value of the label will do; None: without the label."""
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

    def describe(self, key: str) -> str:
        """Describe it for the label `key`, in the notation of label selectors."""
        told = [f"!{key}"] if self.is_absent else []
        if self.among is not None:
            told.append(f"{key} in ({', '.join(sorted(self.among))})")
        elif self.is_present and self.above is None and self.below is None:
            told.append(key)
        if self.not_among:
            told.append(f"{key} notin ({', '.join(sorted(self.not_among))})")
        told += [f"{key} > {self.above}"] if self.above is not None else []
        told += [f"{key} < {self.below}"] if self.below is not None else []
        return ",".join(told)

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
    """Parse one requirement into the demand that it makes on its label.

    One that Kubernetes will refuse, such as one with an unknown operator, is never satisfied.
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
    """Combine demands on one label into a demand that satisfies all of them."""
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


CHOOSING = names.MODE_LABELS | {names.LABEL_POOL}
"""Labels by which a pod chooses its pool; placement is about cards, not about pools."""
MAX_REQUIREMENTS = 1000
"""Of a pod's node affinity: who writes more must not hold up the pods of others."""
_NODE_NAME = "metadata.name"
"""The one field of a node, besides its labels, that a term can ask about."""
_HOSTNAME = "kubernetes.io/hostname"
_NAMES = (_NODE_NAME, _HOSTNAME)
_NO_LABELS: Mapping[str, str] = MappingProxyType({})

Term = Mapping[str, Demand]
"""By label key; all must hold."""
Known = Mapping[str, tuple[str | None, ...]]
"""What is known of nodes' labels: by key the values that one may have, None for its absence. A
label that is not listed may have any."""
Columns = Mapping[str, Mapping[str | None, int]]
"""Combinations of labels: by key and value, None for its absence, those that have it, as bits."""


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """What must hold of a node: all of `labels`, and one of the `terms`."""

    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS, hash=False)
    """The node selector."""
    terms: tuple[Term, ...] | None = field(default=None, hash=False)
    """Required node affinity, where there is any; of an empty one no term can hold."""
    is_too_long: bool = False
    """The affinity was not read: nobody needs so many requirements."""

    @property
    def keys(self) -> frozenset[str]:
        """Label keys that it asks for, and `metadata.name`."""
        return frozenset(self.labels).union(*(self.terms or ()))

    @property
    def requirements(self) -> int:
        """How many labels its terms ask for, each term counted by itself."""
        return sum(map(len, self.terms or ()))

    @property
    def needed_keys(self) -> tuple[str, ...]:
        """Labels that it needs, whatever their values; to avoid a value is not to need the key."""
        return tuple(sorted(key for key in self.keys - {_NODE_NAME} if self._asks_for(key)))

    @property
    def chosen_keys(self) -> tuple[str, ...]:
        """Labels of ours that it asks for; to avoid a value of one is not to choose."""
        return tuple(sorted(key for key in CHOOSING if self._asks_for(key)))

    @property
    def names_node(self) -> bool:
        """Whether it asks for nodes by their names; to avoid one is not to choose."""
        return _HOSTNAME in self.labels or any(
            key in term and term[key].among is not None
            for term in self.terms or ()
            for key in (_NODE_NAME, _HOSTNAME)
        )

    @property
    def contradicts_itself(self) -> bool:
        """Whether no node could ever satisfy it."""
        return self.terms is not None and all(
            any(self._contradicts(key, asked) for key, asked in term.items()) for term in self.terms
        )

    def find_values(self, key: str) -> frozenset[str]:
        """Return the values of a label that the selection accepts by name."""
        named = {self.labels[key]} if key in self.labels else set()
        return frozenset(named).union(
            *(term[key].among or () for term in self.terms or () if key in term)
        )

    def match(self, known: Known) -> bool | None:
        """Tell whether a node with these known labels satisfies the selection; None: that depends
        on labels, or on values, that are not known."""
        matching, possible = self.find_matching({}, known, 1)
        return True if matching else None if possible else False

    def find_matching(self, columns: Columns, known: Known, all_bits: int) -> tuple[int, int]:
        """Find which combinations of labels satisfy the selection, and which may, as bits of
        `all_bits`. What is `known` holds for each; a key among the `columns` goes before that."""
        matching = possible = all_bits
        for key, value in self.labels.items():
            if (column := columns.get(key)) is not None:
                bits = column.get(value, 0)
                matching &= bits
                possible &= bits
            elif (values := known.get(key)) is None:
                matching = 0
            elif value not in values:
                return 0, 0
            elif len(values) > 1:
                matching = 0
        if self.terms is None or not possible:
            return matching, possible
        by_one = may_by_one = 0
        for term in self.terms:
            bits, may_be = self._find_matching(term, columns, known, all_bits)
            by_one |= bits
            may_by_one |= may_be
        return matching & by_one, possible & may_by_one

    def admits(self, name: str, labels: Mapping[str, str], ignored: Set[str] = frozenset()) -> bool:
        """Tell whether the node with this name and these labels satisfies the selection, apart from
        its demands on the `ignored` labels."""
        asked = self.keys - ignored
        known = {key: (name if key == _NODE_NAME else labels.get(key),) for key in asked}
        return self.match(known) is not False

    def describe_unmet(self, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Describe each label that a node lacks, in the notation of label selectors; of the
        affinity's terms that of which it lacks least."""
        has = {**labels, _NODE_NAME: name}
        unmet = [f"{key}={value}" for key, value in self.labels.items() if has.get(key) != value]
        of_terms = (
            [each.describe(key) for key, each in term.items() if not each.admits(has.get(key))]
            for term in self.terms or ()
        )
        return (*unmet, *min(of_terms, key=len, default=()))

    def _asks_for(self, key: str) -> bool:
        return key in self.labels or any(
            key in term and term[key].is_present for term in self.terms or ()
        )

    def _contradicts(self, key: str, asked: Demand) -> bool:
        """Tell whether no value satisfies both the demand and the node selector's label."""
        if key in self.labels:
            return not asked.admits(self.labels[key])
        return asked.contradicts_itself

    def _find_matching(
        self, term: Term, columns: Columns, known: Known, all_bits: int
    ) -> tuple[int, int]:
        matching = possible = all_bits
        for key, asked in term.items():
            if key in self.labels:
                # Which of the values a node has, the node selector settles.
                if not asked.admits(self.labels[key]):
                    return 0, 0
            elif (column := columns.get(key)) is not None:
                # Each combination has one of the values.
                bits = sum(bits for value, bits in column.items() if asked.admits(value))
                matching &= bits
                possible &= bits
            elif (values := known.get(key)) is None:
                # To avoid a node by its name leaves the others.
                if asked.is_present or key not in _NAMES:
                    matching = 0
            elif not all(admitted := [asked.admits(value) for value in values]):
                if not any(admitted):
                    return 0, 0
                matching = 0
        return matching, possible


ANYWHERE = NodeSelection()
"""The selection of a pod that says nothing."""
Preferences = tuple[tuple[int, NodeSelection], ...]
"""Weights, and the nodes that get them."""
_MAX_PREFERRED = 50
"""Requirements of preferred node affinity: each is compared with each pool."""


def read_node_selection(spec: Spec) -> NodeSelection:
    """Read the node selection from a pod's spec; `ANYWHERE` itself where there is none."""
    labels, affinity = spec.node_selector, spec.affinity
    if affinity is None or (nodes := affinity.node_affinity) is None or nodes.required is None:
        return NodeSelection(labels) if labels else ANYWHERE
    terms = list(map(_list_requirements, nodes.required.node_selector_terms or ()))
    if sum(map(len, terms)) > MAX_REQUIREMENTS:
        return NodeSelection(labels or _NO_LABELS, is_too_long=True)
    # A term without requirements matches no node.
    return NodeSelection(labels or _NO_LABELS, tuple(_join(term) for term in terms if term))


def read_preferences(spec: Spec) -> Preferences:
    """Read the preferred node affinity from a pod's spec; none of it where it is too long."""
    affinity = spec.affinity
    if affinity is None or (nodes := affinity.node_affinity) is None or not nodes.preferred:
        return ()
    found = [
        (each.weight or 0, _list_requirements(each.preference))
        for each in nodes.preferred
        if each.preference is not None
    ]
    if sum(len(requirements) for _, requirements in found) > _MAX_PREFERRED:
        return ()
    return tuple((weight, NodeSelection(terms=(_join(term),))) for weight, term in found if term)


def _list_requirements(term: ShapeOfTerm) -> Sequence[Requirement]:
    return *(term.match_expressions or ()), *(term.match_fields or ())


def _join(requirements: Sequence[Requirement]) -> Term:
    demands: dict[str, list[Demand]] = {}
    for requirement in requirements:
        demand = parse_demand(requirement.operator, requirement.values or ())
        demands.setdefault(requirement.key or "", []).append(demand)
    return {key: join_demands(asked) for key, asked in demands.items()}
