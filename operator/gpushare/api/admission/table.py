"""Defines the GPUShareAdmissionTable: the pools as the chart's MutatingAdmissionPolicy reads them.

The controller alone writes it. Nothing has a default: what is read is what was written.
"""

from typing import Annotated, Any

from pydantic import Field

from gpushare.api.model import ApiModel
from gpushare.api.selector import DNS_NAME, LABEL_VALUE, SelectorOperator
from gpushare.api.workloads import TaintEffect, TolerationOperator

MOST_POOLS = 300
"""Of a table."""
MOST_NODES_ENTRIES = 64
"""Of a pool."""
LabelKey = Annotated[str, Field(max_length=317, pattern="^[-A-Za-z0-9_./]+$")]
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]
Labels = Annotated[dict[str, LabelValue], Field(max_length=10)]
Served = Annotated[str, Field(max_length=253)]


class TableRequirement(ApiModel):
    """One requirement on a label."""

    key: LabelKey = Field(description="Label key.")
    operator: SelectorOperator = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: Annotated[tuple[LabelValue, ...], Field(max_length=100)] = Field(
        description="Values of In and NotIn; otherwise empty."
    )


Requirements = Annotated[tuple[TableRequirement, ...], Field(max_length=100)]


class TableToleration(ApiModel):
    """A toleration, as in a pod's spec."""

    key: LabelKey | None = Field(default=None, description="Key of the taint.")
    operator: TolerationOperator | None = Field(default=None, description="Equal or Exists.")
    value: LabelValue | None = Field(default=None, description="Value of the taint.")
    effect: TaintEffect | None = Field(default=None, description="Effect of the taint.")
    toleration_seconds: int | None = Field(
        default=None, description="How long the taint is tolerated."
    )


Known = Annotated[
    dict[str, Annotated[tuple[LabelValue, ...], Field(max_length=100)]], Field(max_length=200)
]
"""Possible values by label key."""
ModeKey = Annotated[str, Field(max_length=63)]


class TableMode(ApiModel):
    """A mode of GPU sharing in an edition."""

    serves: Annotated[tuple[Served, ...], Field(max_length=16)] = Field(
        description="The sets of resources that a pod may request, each sorted and joined by +."
    )
    isolates: bool = Field(
        description="Whether containers are limited to their share of GPU memory, by any means."
    )
    isolates_by_kernel: bool = Field(
        description="Whether they are as the annotation gpushare.io/isolation: required wants it."
    )
    labels: Labels = Field(description="Labels of nodes in the mode.")


class TablePool(ApiModel):
    """A pool that takes pods. What is not set is false, empty or unknown: API servers of
    Kubernetes 1.37 convert the whole table for each pod that is created."""

    name: Annotated[str, Field(max_length=63, pattern=f"^{DNS_NAME}$")] = Field(
        description="Name of the pool."
    )
    mode: ModeKey = Field(description="Key of its mode in spec.modes.")
    selects_mode: bool | None = Field(
        default=None, description="Whether pods get the mode's labels in place of the pool's."
    )
    on_request: bool | None = Field(
        default=None, description="Whether the pool takes only pods that request it."
    )
    is_empty: bool | None = Field(default=None, description="Whether the pool has no node.")
    namespace_selector: Requirements | None = Field(
        default=None, description="Selects the namespaces of the pods. Not set: every namespace."
    )
    pod_selector: Requirements | None = Field(
        default=None, description="Selects pods by their labels. Not set: every pod."
    )
    tolerations: Annotated[tuple[TableToleration, ...], Field(max_length=20)] | None = Field(
        default=None, description="Tolerations that a pod gets."
    )
    labels: Known | None = Field(
        default=None,
        description="Possible values of labels of all its nodes, besides those of the pool and of "
        "its mode. A label that is not listed may be absent, or have any value.",
    )
    nodes: Annotated[tuple[Known, ...], Field(max_length=MOST_NODES_ENTRIES)] = Field(
        description="Kinds of nodes by their further labels, each with its value, or without one "
        "where it is absent. A node selection excludes the pool if no kind can match."
    )


class AdmissionTableSpec(ApiModel):
    """The pools, in the order in which they are tried."""

    modes: Annotated[
        dict[str, TableMode],
        # Replaced as a whole, so that a mode goes that was created with the object.
        Field(max_length=50, json_schema_extra={"x-kubernetes-map-type": "atomic"}),
    ] = Field(description="The modes of the pools.")
    pools: Annotated[tuple[TablePool, ...], Field(max_length=MOST_POOLS)] = Field(
        description="The pools that take pods, in the order in which they are tried."
    )
    count: Annotated[int, Field(ge=0, le=MOST_POOLS)] = Field(description="Number of these pools.")
    omitted: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        description="Number of pools that are left out for lack of space."
    )

    def dump(self) -> dict[str, Any]:
        """Return the spec as the API server stores it."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
