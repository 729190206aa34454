"""The GPUSharePool: the one source of its CRD, its checks and its documentation."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gpushare import names


def rule(expression: str, message: str, **more: str) -> dict[str, str]:
    """A CEL rule of the CRD (`x-kubernetes-validations`) with the sentence a person reads."""
    return {"rule": expression, "message": message, **more}


def rules(*all_rules: dict[str, str]) -> dict[str, Any]:
    """JSON schema extra that carries `all_rules`."""
    return {"x-kubernetes-validations": list(all_rules)}


class Edition(StrEnum):
    """Which product's labels are written."""

    PROFESSIONAL = "Professional"
    BASIC = "Basic"
    OPEN_SOURCE = "OpenSource"


class Schedule(StrEnum):
    """How the GPUs of a node are given out; the values of `ack.node.gpu.schedule`."""

    DEFAULT = "default"
    SHARE = "share"
    CGPU = "cgpu"
    CORE_MEM = "core_mem"
    MPS = "mps"
    TOPOLOGY = "topology"
    DISABLED = "disabled"


class Placement(StrEnum):
    """Which card of a node a pod gets; the values of `ack.node.gpu.placement`."""

    BINPACK = "binpack"
    SPREAD = "spread"


class RestartPolicy(StrEnum):
    """When the operator restarts a node's device plugin."""

    ON_ISOLATION_CHANGE = "OnIsolationChange"
    NEVER = "Never"


EDITION_SCHEDULES: dict[Edition, tuple[Schedule, ...]] = {
    Edition.PROFESSIONAL: tuple(Schedule),
    Edition.BASIC: (Schedule.DEFAULT, Schedule.SHARE, Schedule.CGPU),
    Edition.OPEN_SOURCE: (Schedule.DEFAULT, Schedule.SHARE),
}
"""The modes that each edition has (vendor's guides on labels, and the open-source installation)."""

_WRITTEN = sorted(names.NODE_LABELS - {names.LABEL_POOL})
_WRITTEN_MESSAGE = (
    "selects on a label that the operator itself writes; select by a label that says which "
    "nodes these are, such as alibabacloud.com/nodepool-id"
)


def _not_ours(key: str) -> str:
    return f"!({key} in {_WRITTEN}) && !{key}.startsWith('{names.GROUP}/')"


class ApiModel(BaseModel):
    """Base of what is on the wire: camelCase there, unknown fields ignored, never changed."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore"
    )


class SelectorOperator(StrEnum):
    """Kubernetes' label selector operators."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
LabelKey = Annotated[
    str, Field(max_length=317, pattern=f"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_NAME}$")
]
LabelValue = Annotated[str, Field(max_length=63, pattern=f"^({_NAME})?$")]
NodeName = Annotated[str, Field(max_length=253, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class SelectorRequirement(ApiModel):
    """One requirement on a label, as in Kubernetes' LabelSelector."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.operator in ['In', 'NotIn'] ? "
                "(has(self.values) && size(self.values) > 0) : "
                "(!has(self.values) || size(self.values) == 0)",
                "In and NotIn need values; Exists and DoesNotExist take none",
            ),
            rule(_not_ours("self.key"), _WRITTEN_MESSAGE),
        )
    )

    key: LabelKey = Field(description="Label key.")
    operator: SelectorOperator = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: Annotated[tuple[LabelValue, ...], Field(max_length=100)] = Field(
        default=(), description="Values for In and NotIn; none for Exists and DoesNotExist."
    )


class LabelSelector(ApiModel):
    """Nodes by their labels; all requirements must hold."""

    match_labels: Annotated[
        dict[str, LabelValue],
        Field(
            max_length=50,
            json_schema_extra=rules(rule(f"self.all(k, {_not_ours('k')})", _WRITTEN_MESSAGE)),
        ),
    ] = Field(default={}, description="Labels and the values they must have.")
    match_expressions: Annotated[tuple[SelectorRequirement, ...], Field(max_length=50)] = Field(
        default=(), description="Further requirements on labels."
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
                "a pool needs members: give nodes.selector at least one label or expression, "
                "or list node names in nodes.names",
            )
        )
    )

    selector: LabelSelector | None = Field(
        default=None,
        description="Members by label. Control-plane nodes are members only when they are named.",
    )
    names: Annotated[tuple[NodeName, ...], Field(max_length=1000)] = Field(
        default=(), description="Members by name, in addition to those selected."
    )
    exclude: Annotated[tuple[NodeName, ...], Field(max_length=1000)] = Field(
        default=(), description="Names of nodes that are never members."
    )


class DevicePlugin(ApiModel):
    """What happens to the device plugin of a node whose isolation changes."""

    restart: RestartPolicy = Field(
        default=RestartPolicy.ON_ISOLATION_CHANGE,
        description="OnIsolationChange: the plugin's pod is deleted once per change, on a "
        "cordoned node. Never: labels are written, and the node is reported until somebody "
        "restarts the plugin.",
    )


class PoolSpec(ApiModel):
    """What the nodes of a pool shall be."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.placement) || self.edition == 'Professional'",
                "placement exists in the Professional edition only; leave it out",
            ),
            *(
                rule(
                    f"self.edition != '{edition}' || self.schedule in {list(map(str, schedules))}",
                    f"the {edition} edition has no such mode; schedule must be one of "
                    + ", ".join(schedules),
                )
                for edition, schedules in EDITION_SCHEDULES.items()
                if edition is not Edition.PROFESSIONAL
            ),
        )
    )

    nodes: Nodes = Field(description="Which nodes are members.")
    edition: Annotated[
        Edition,
        Field(
            json_schema_extra=rules(
                rule(
                    "self == oldSelf",
                    "edition can't change: delete the pool (its nodes keep their labels) and "
                    "create one of the other edition",
                )
            )
        ),
    ] = Field(
        default=Edition.PROFESSIONAL,
        description="Which product's labels are written: Professional (ack-ai-installer), Basic "
        "(ack-cgpu on dedicated clusters) or OpenSource (gpushare-device-plugin).",
    )
    schedule: Schedule = Field(
        description="How GPUs are given out: default (whole cards), share (memory is counted, "
        "not isolated), cgpu (memory isolated), core_mem (memory and compute isolated), mps, "
        "topology, disabled."
    )
    placement: Placement | None = Field(
        default=None,
        description="Which card of a node is filled: binpack or spread. Professional only. "
        "Absent: the label is not written; taking the field out again removes it.",
    )
    priority: int = Field(
        default=100,
        ge=0,
        le=1_000_000,
        description="Where two pools claim a node, the higher one wins; in admission the higher "
        "one is preferred.",
    )
    device_plugin: DevicePlugin = Field(
        default=DevicePlugin(),
        description="What happens to the device plugin of a node whose isolation changes.",
    )


class NodeCounts(ApiModel):
    """How many members are where."""

    matched: int = Field(default=0, description="Members of the pool.")
    ready: int = Field(default=0, description="Applied, verified, nothing under way.")
    updating: int = Field(default=0, description="In their change.")
    waiting: int = Field(default=0, description="For their turn.")
    blocked: int = Field(default=0, description="Held up by something else.")
    failed: int = Field(default=0, description="A deadline passed.")


class NodeSample(ApiModel):
    """One node that is not ready, and why."""

    node: str = Field(description="Name of the node.")
    reason: str = Field(description="Reason code.")
    since: datetime = Field(description="Since when for this reason.")
    message: str = Field(description="What it waits for, and what would unblock it.")


class ConditionStatus(ApiModel):
    """A condition, as in the Kubernetes API conventions."""

    type: str = Field(description="Type of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: int = Field(default=0, description="Generation that it speaks of.")
    last_transition_time: datetime = Field(description="When the status last changed.")
    reason: str = Field(description="Reason code.")
    message: str = Field(description="A sentence for a person.")


class PoolStatus(ApiModel):
    """What is."""

    observed_generation: int = Field(default=0, description="Generation that was acted on.")
    conditions: Annotated[
        tuple[ConditionStatus, ...],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = Field(default=(), description="Ready: every member is as the spec says.")
    nodes: NodeCounts = Field(default=NodeCounts(), description="How many members are where.")
    samples: Annotated[tuple[NodeSample, ...], Field(max_length=20)] = Field(
        default=(), description="At most 20 nodes that are not ready, with the reason."
    )


class Pool(ApiModel):
    """A GPUSharePool as it is read from the API server."""

    name: str
    uid: str
    generation: int
    created: datetime
    deleting: bool
    finalizers: frozenset[str]
    spec: PoolSpec
    status: PoolStatus

    @property
    def has_our_finalizer(self) -> bool:
        return names.FINALIZER in self.finalizers

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> Self:
        """A Pool from the API server's JSON; pydantic's ValidationError where it is none."""
        meta = raw["metadata"]
        return cls(
            name=meta["name"],
            uid=meta["uid"],
            generation=meta.get("generation", 0),
            created=meta["creationTimestamp"],
            deleting="deletionTimestamp" in meta,
            finalizers=frozenset(meta.get("finalizers", ())),
            spec=PoolSpec.model_validate(raw.get("spec", {})),
            status=PoolStatus.model_validate(raw.get("status") or {}),
        )
