"""Where a pod's owner lets it run: its node selector and its required node affinity.

As kube-scheduler reads them ("Assigning Pods to Nodes" in the Kubernetes documentation): all of the
node selector must hold, and one of the affinity's terms; of a term every requirement.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from gpushare import names
from gpushare.api.demand import Demand, join_demands, parse_demand
from gpushare.api.podshape import Requirement, Spec

CHOOSING = names.MODE_LABELS | {names.LABEL_POOL}
"""Labels by which a pod chooses its pool; placement is about cards, not about pools."""
MAX_REQUIREMENTS = 1000
"""Of a pod's node affinity: who writes more must not hold up the pods of others."""
_NODE_NAME = "metadata.name"
"""The one field of a node, besides its labels, that a term can ask about."""
_HOSTNAME = "kubernetes.io/hostname"
_NO_LABELS: Mapping[str, str] = MappingProxyType({})

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
    is_too_long: bool = False
    """The affinity was not read: nobody needs so many requirements."""

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
        """The values of a label that it names as those that will do."""
        named = {self.labels[key]} if key in self.labels else set()
        return frozenset(named).union(
            *(term[key].among or () for term in self.terms or () if key in term)
        )

    def may_hold(self, known: Known) -> bool:
        """Whether a node may satisfy it of whose labels this is known."""
        for key, value in self.labels.items():
            if key in known and value not in known[key]:
                return False
        return self.terms is None or any(self._may_hold(term, known) for term in self.terms)

    def admits(self, name: str, labels: Mapping[str, str], ignored: Set[str] = frozenset()) -> bool:
        """Whether the node of this name, with these labels, satisfies it; what it asks of the
        `ignored` labels does not count."""
        asked = {*self.labels, *(key for term in self.terms or () for key in term)} - ignored
        known = {key: (name if key == _NODE_NAME else labels.get(key),) for key in asked}
        return self.may_hold(known)

    def _asks_for(self, key: str) -> bool:
        return key in self.labels or any(
            key in term and term[key].is_present for term in self.terms or ()
        )

    def _contradicts(self, key: str, asked: Demand) -> bool:
        """Whether the demand leaves nothing, beside what the node selector asks of the label."""
        if key in self.labels:
            return not asked.admits(self.labels[key])
        return asked.contradicts_itself

    def _may_hold(self, term: Term, known: Known) -> bool:
        for key, asked in term.items():
            if key in self.labels:
                if not asked.admits(self.labels[key]):
                    return False
            elif key in known and not any(map(asked.admits, known[key])):
                return False
        return True


ANYWHERE = NodeSelection()
"""The selection of a pod that says nothing."""


def read_node_selection(spec: Spec) -> NodeSelection:
    """What a pod's spec says; `ANYWHERE` itself where it says nothing."""
    labels, affinity = spec.node_selector, spec.affinity
    if affinity is None or (nodes := affinity.node_affinity) is None or nodes.required is None:
        return NodeSelection(labels) if labels else ANYWHERE
    terms = [
        (*(term.match_expressions or ()), *(term.match_fields or ()))
        for term in nodes.required.node_selector_terms or ()
    ]
    if sum(map(len, terms)) > MAX_REQUIREMENTS:
        return NodeSelection(labels or _NO_LABELS, is_too_long=True)
    # A term without requirements matches no node.
    return NodeSelection(labels or _NO_LABELS, tuple(_join(term) for term in terms if term))


def _join(requirements: Sequence[Requirement]) -> Term:
    demands: dict[str, list[Demand]] = {}
    for requirement in requirements:
        demand = parse_demand(requirement.operator, requirement.values or ())
        demands.setdefault(requirement.key or "", []).append(demand)
    return {key: join_demands(asked) for key, asked in demands.items()}
