"""Evaluates a pod's node selector and node affinity, as kube-scheduler does.

The node selector must match, and one of the affinity's terms with all of its requirements
("Assigning Pods to Nodes" in the Kubernetes documentation).
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
    """All requirements on one label together, evaluated as in kube-scheduler.

    NotIn and DoesNotExist also match where the label is absent; other operators need it.
    """

    among: frozenset[str] | None = None
    """Values that all requirements with In allow; None without such a requirement."""
    not_among: frozenset[str] = frozenset()
    """Values that NotIn excludes."""
    above: int | None = None
    below: int | None = None
    is_present: bool = False
    is_absent: bool = False

    def admits(self, value: str | None) -> bool:
        """Tell whether a node with this value of the label matches; None: without the label."""
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
        """Describe the demand on the label `key`, in the notation of label selectors."""
        parts = [f"!{key}"] if self.is_absent else []
        if self.among is not None:
            parts.append(f"{key} in ({', '.join(sorted(self.among))})")
        elif self.is_present and self.above is None and self.below is None:
            parts.append(key)
        if self.not_among:
            parts.append(f"{key} notin ({', '.join(sorted(self.not_among))})")
        parts += [f"{key} > {self.above}"] if self.above is not None else []
        parts += [f"{key} < {self.below}"] if self.below is not None else []
        return ",".join(parts)

    @property
    def contradicts_itself(self) -> bool:
        """Whether no value can satisfy the demand, nor the label's absence."""
        if not self.is_present:
            return False
        if self.is_absent:
            return True
        if self.among is not None:
            return not any(map(self.admits, self.among))
        if self.above is None or self.below is None:
            return False
        # NotIn can't exclude a number: it has many spellings (5, 05, +5).
        return self.below - self.above < 2


_PRESENT = Demand(is_present=True)
_ABSENT = Demand(is_absent=True)
_NEVER = Demand(among=frozenset(), is_present=True)


def parse_demand(operator: object, values: Iterable[str]) -> Demand:
    """Parse one requirement into a demand on its label.

    An invalid requirement, such as one with an unknown operator, is never satisfied.
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
    """Combine demands on one label into one that is satisfied where all of them are."""
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
"""Labels by which a pod selects its pool; the placement label selects cards, not pools."""
FOLLOWING = CHOOSING | {names.LABEL_ISOLATION_VERIFIED}
"""Labels by which a pod selects nodes of a pool's mode: a change of the mode changes them."""
MAX_REQUIREMENTS = 1000
"""Limit of requirements of a pod's node affinity, against slow evaluation."""
_NODE_NAME = "metadata.name"
"""The only field of a node, besides its labels, that a term can select."""
_HOSTNAME = "kubernetes.io/hostname"
_NAMES = (_NODE_NAME, _HOSTNAME)
_NO_LABELS: Mapping[str, str] = MappingProxyType({})

Term = Mapping[str, Demand]
"""Demands by label key, all of which must be satisfied."""
Known = Mapping[str, tuple[str | None, ...]]
"""Possible values of nodes' labels by key, with None for absence. A label that is not listed may
have any value."""
Columns = Mapping[str, Mapping[str | None, int]]
"""Combinations of labels as bits, by key and value, with None for absence."""


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """A pod's selection of nodes: all of `labels`, and one of the `terms`."""

    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS, hash=False)
    """Node selector."""
    terms: tuple[Term, ...] | None = field(default=None, hash=False)
    """Terms of the required node affinity; None without one. An empty one matches no node."""
    is_too_long: bool = False
    """Whether the affinity was not read, since it has too many requirements."""

    @property
    def keys(self) -> frozenset[str]:
        """Keys of all labels in the selection, and `metadata.name`."""
        return frozenset(self.labels).union(*(self.terms or ()))

    @property
    def requirements(self) -> int:
        """Number of demands of all terms."""
        return sum(map(len, self.terms or ()))

    @property
    def needed_keys(self) -> tuple[str, ...]:
        """Keys of labels that a matching node must have; to exclude a value needs no label."""
        return tuple(sorted(key for key in self.keys - {_NODE_NAME} if self._asks_for(key)))

    @property
    def chosen_keys(self) -> tuple[str, ...]:
        """Keys of our labels that a matching node must have."""
        return tuple(sorted(key for key in CHOOSING if self._asks_for(key)))

    @property
    def names_node(self) -> bool:
        """Whether the selection selects nodes by name; to exclude a node does not count."""
        return _HOSTNAME in self.labels or any(
            key in term and term[key].among is not None
            for term in self.terms or ()
            for key in (_NODE_NAME, _HOSTNAME)
        )

    @property
    def contradicts_itself(self) -> bool:
        """Whether no node could ever match."""
        return self.terms is not None and all(
            any(self._contradicts(key, asked) for key, asked in term.items()) for term in self.terms
        )

    def find_values(self, key: str) -> frozenset[str]:
        """Find the values of a label that the selection lists."""
        named = {self.labels[key]} if key in self.labels else set()
        return frozenset(named).union(
            *(term[key].among or () for term in self.terms or () if key in term)
        )

    def match(self, known: Known) -> bool | None:
        """Tell whether a node with these known labels matches; None: that depends on unknown labels
        or values."""
        matching, possible = self.find_matching({}, known, 1)
        return True if matching else None if possible else False

    def find_matching(self, columns: Columns, known: Known, all_bits: int) -> tuple[int, int]:
        """Find the combinations of labels that match, and those that may match, as bits of
        `all_bits`. `known` holds for all combinations, except for keys of the `columns`."""
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
        """Tell whether a node with this name and these labels matches, apart from demands on
        `ignored` labels."""
        asked = self.keys - ignored
        known = {key: (name if key == _NODE_NAME else labels.get(key),) for key in asked}
        return self.match(known) is not False

    def describe_unmet(self, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Describe each label that a node lacks, in the notation of label selectors; of the
        affinity's terms the one of which the node lacks least."""
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
        """Tell whether no value satisfies both the demand and the node selector."""
        if key in self.labels:
            return not asked.admits(self.labels[key])
        return asked.contradicts_itself

    def _find_matching(
        self, term: Term, columns: Columns, known: Known, all_bits: int
    ) -> tuple[int, int]:
        matching = possible = all_bits
        for key, asked in term.items():
            if key in self.labels:
                # The node selector determines the value.
                if not asked.admits(self.labels[key]):
                    return 0, 0
            elif (column := columns.get(key)) is not None:
                # Each combination has one of the values.
                bits = sum(bits for value, bits in column.items() if asked.admits(value))
                matching &= bits
                possible &= bits
            elif (values := known.get(key)) is None:
                # The exclusion of a node by name still allows others.
                if asked.is_present or key not in _NAMES:
                    matching = 0
            elif not all(admitted := [asked.admits(value) for value in values]):
                if not any(admitted):
                    return 0, 0
                matching = 0
        return matching, possible


ANYWHERE = NodeSelection()
"""Selection of all nodes."""
Preferences = tuple[tuple[int, NodeSelection], ...]
"""Weights with their selections of nodes."""
_MAX_PREFERRED = 50
"""Limit of requirements of preferred node affinity: each is compared with each pool."""


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
    """Read the preferred node affinity from a pod's spec; empty where it is too long."""
    affinity = spec.affinity
    if affinity is None or (nodes := affinity.node_affinity) is None or not nodes.preferred:
        return ()
    terms = [
        (each.weight or 0, _list_requirements(each.preference))
        for each in nodes.preferred
        if each.preference is not None
    ]
    if sum(len(requirements) for _, requirements in terms) > _MAX_PREFERRED:
        return ()
    return tuple((weight, NodeSelection(terms=(_join(term),))) for weight, term in terms if term)


def _list_requirements(term: ShapeOfTerm) -> Sequence[Requirement]:
    return *(term.match_expressions or ()), *(term.match_fields or ())


def _join(requirements: Sequence[Requirement]) -> Term:
    demands: dict[str, list[Demand]] = {}
    for requirement in requirements:
        demand = parse_demand(requirement.operator, requirement.values or ())
        demands.setdefault(requirement.key or "", []).append(demand)
    return {key: join_demands(asked) for key, asked in demands.items()}
