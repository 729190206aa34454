"""Defines the selection of nodes and pods, by labels (Kubernetes' LabelSelector) and names."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from gpushare import names
from gpushare.api.model import ApiModel, rule, rules

DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_NAME = f"{DNS_LABEL}([.]{DNS_LABEL})*"
LABEL_KEY = f"^({DNS_NAME}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
_KEY_MESSAGE = (
    "label keys must be a name of at most 63 letters, digits, '-', '_' and '.', optionally after a "
    "DNS name of at most 253 characters and a slash"
)


def _is_key(key: str) -> str:
    # CEL's own format.qualifiedName() needs Kubernetes 1.32.
    return f"{key}.matches('{LABEL_KEY}') && {key}.indexOf('/') <= 253"


class SelectorOperator(StrEnum):
    """Kubernetes' label selector operators."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


LABEL_VALUE = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
LabelKey = Annotated[str, Field(max_length=317)]  # what else it must be is a rule: `_is_key`
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]


class SelectorRequirement(ApiModel):
    """One requirement on a label, as in Kubernetes' LabelSelector."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.operator in ['In', 'NotIn'] ? "
                "(has(self.values) && size(self.values) > 0) : "
                "(!has(self.values) || size(self.values) == 0)",
                "values must be set for In and NotIn, and must not be set for Exists and "
                "DoesNotExist",
            ),
            rule(_is_key("self.key"), _KEY_MESSAGE),
        )
    )

    key: LabelKey = Field(description="Label key.")
    operator: SelectorOperator = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: Annotated[tuple[LabelValue, ...], Field(max_length=100)] = Field(
        default=(), description="Values for In and NotIn. Not allowed with Exists and DoesNotExist."
    )


class LabelSelector(ApiModel):
    """Selects objects by their labels; all requirements must hold."""

    match_labels: Annotated[
        dict[str, LabelValue],
        Field(
            max_length=50,
            json_schema_extra=rules(rule(f"self.all(k, {_is_key('k')})", _KEY_MESSAGE)),
        ),
    ] = Field(default={}, description="Labels and their required values.")
    match_expressions: Annotated[tuple[SelectorRequirement, ...], Field(max_length=50)] = Field(
        default=(), description="Further requirements on labels."
    )


def matches_selector(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether all requirements hold, as Kubernetes' label selectors define them.

    NotIn and DoesNotExist also hold where the key is absent ("Labels and Selectors" in the
    Kubernetes documentation).
    """
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(_matches(requirement, labels) for requirement in selector.match_expressions)


def _matches(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case SelectorOperator.IN:
            return value is not None and value in requirement.values
        case SelectorOperator.NOT_IN:
            return value is None or value not in requirement.values
        case SelectorOperator.EXISTS:
            return value is not None
        case SelectorOperator.DOES_NOT_EXIST:
            return value is None


_WRITTEN = sorted(names.VENDOR_LABELS)
_WRITTEN_MESSAGE = (
    "must not use a label that the operator writes. Use a label that identifies the nodes, such "
    "as alibabacloud.com/nodepool-id"
)


def _not_ours(key: str) -> str:
    return f"!({key} in {_WRITTEN}) && !{key}.startsWith('{names.GROUP}/')"


MOST_NODES = 100_000
"""The largest size of a pool."""
NodeName = Annotated[str, Field(max_length=253, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class CardsPolicy(StrEnum):
    """Which members count as having GPUs."""

    DETECTED = "Detected"
    ASSUMED = "Assumed"


class Scaling(StrEnum):
    """Whether nodes may be added to a pool whose labels no present node has."""

    FIXED = "Fixed"
    AUTOSCALED = "Autoscaled"


class PoolSize(ApiModel):
    """How many of the nodes that match a pool has."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.min) || !has(self.max) || self.min <= self.max",
                "min must not be greater than max",
            ),
        )
    )

    min: int = Field(
        default=0,
        ge=0,
        le=MOST_NODES,
        description="The fewest nodes, while as many match. Nodes for a minimum are taken from "
        "other pools with a size that have more than theirs, and from pools of lower priority.",
    )
    max: int | None = Field(
        default=None,
        ge=0,
        le=MOST_NODES,
        description="The most nodes. Of more, nodes without GPU pods leave first. If not set, the "
        "pool has all nodes that it can get.",
    )


class Nodes(ApiModel):
    """Which nodes are members."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "(has(self.names) && size(self.names) > 0) || (has(self.selector) && ("
                "(has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || "
                "(has(self.selector.matchExpressions) && "
                "size(self.selector.matchExpressions) > 0)))",
                "must select members: set at least one label or expression in nodes.selector, or "
                "node names in nodes.names",
            ),
            rule(
                "!has(self.size) || !has(self.size.min) || has(self.selector) || "
                "!has(self.names) || size(self.names) >= self.size.min",
                "size.min must not be greater than the number of nodes.names",
            ),
        )
    )

    selector: Annotated[
        LabelSelector | None,
        Field(
            json_schema_extra=rules(
                rule(
                    f"!has(self.matchLabels) || self.matchLabels.all(k, {_not_ours('k')})",
                    _WRITTEN_MESSAGE,
                ),
                rule(
                    "!has(self.matchExpressions) || "
                    f"self.matchExpressions.all(e, {_not_ours('e.key')})",
                    _WRITTEN_MESSAGE,
                ),
            )
        ),
    ] = Field(
        default=None,
        description="Selects members by label. Control-plane nodes are members only if listed in "
        "names.",
    )
    names: Annotated[tuple[NodeName, ...], Field(max_length=1000)] = Field(
        default=(), description="Names of further members, in addition to the selected nodes."
    )
    exclude: Annotated[tuple[NodeName, ...], Field(max_length=1000)] = Field(
        default=(), description="Names of nodes that are never members, even if selected."
    )
    cards: CardsPolicy = Field(
        default=CardsPolicy.DETECTED,
        description="Which nodes count as having GPUs: no other is changed. Detected: those that "
        "show one, by a resource, a label of a cloud or of feature discovery, or their instance "
        "type, and those in names. Assumed: all, for nodes that show nothing before they have the "
        "pool's label. Windows and virtual nodes never count.",
    )
    scaling: Scaling = Field(
        default=Scaling.FIXED,
        description="Whether an autoscaler may add nodes with other labels than the present nodes "
        "have. Fixed: admission excludes the pool if a pod's node selection matches none of its "
        "nodes. Autoscaled: it only prefers pools with a node that matches.",
    )

    size: PoolSize | None = Field(
        default=None,
        description="How many of the nodes that match are members. If not set, all are that no "
        "other pool has.",
    )

    @cached_property
    def named(self) -> frozenset[str]:
        return frozenset(self.names)

    @cached_property
    def excluded(self) -> frozenset[str]:
        return frozenset(self.exclude)

    @cached_property
    def digest(self) -> str:
        """Hash of the selection, which does not depend on the order of its parts."""
        given = _order(self.model_dump(mode="json", exclude_defaults=True))
        return hashlib.sha256(repr(given).encode()).hexdigest()[:12]

    def assumes_cards(self, node: str) -> bool:
        """Tell whether the spec declares that the member `node` has GPUs."""
        return self.cards is CardsPolicy.ASSUMED or node in self.named


def _order(value: Any) -> Any:
    """Sort the mappings and lists of a JSON value."""
    if isinstance(value, dict):
        return {key: _order(each) for key, each in sorted(value.items())}
    return sorted(map(_order, value), key=repr) if isinstance(value, list) else value
