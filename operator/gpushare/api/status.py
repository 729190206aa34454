"""Defines the status of a GPUSharePool; its size is bounded, whatever the pool's."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from gpushare.api.model import ApiModel

MemoryUnit = Literal["GiB", "MiB"]
"""Unit of GPU memory of device plugins."""


class NodeCounts(ApiModel):
    """The members of the pool by state."""

    matched: int = Field(default=0, description="Number of members.")
    summary: str = Field(
        default="",
        description="Number of members, with the fewest and most that spec.nodes.size allows, such "
        "as 4/2-6.",
    )
    ready: int = Field(default=0, description="Members whose mode is applied and verified.")
    updating: int = Field(default=0, description="Members whose change is under way.")
    waiting: int = Field(default=0, description="Members that wait for the budget, or to be Ready.")
    blocked: int = Field(default=0, description="Members whose change is blocked.")
    failed: int = Field(default=0, description="Members whose change failed.")


class NodeSample(ApiModel):
    """One node that is not ready, or ready with a warning, and why."""

    node: str = Field(description="Name of the node.")
    reason: str = Field(description="Reason code of its state.")
    since: datetime = Field(description="When this reason began.")
    message: str = Field(description="The state of the node, its cause, and what to do.")
    deadline: datetime | None = Field(default=None, description="When its change will fail.")


class ConditionStatus(ApiModel):
    """A condition, as in the Kubernetes API conventions."""

    type: str = Field(description="Type of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: int = Field(
        default=0, description="Generation of the pool that the condition describes."
    )
    last_transition_time: datetime = Field(description="When the status last changed.")
    reason: str = Field(description="Reason code.")
    message: str = Field(description="Human-readable details.")


class FreeBlock(ApiModel):
    """Cards that have the same amount of free memory."""

    size: int = Field(description="Free memory of each card, in the unit of the device plugin.")
    cards: int = Field(description="Number of cards.")


class PoolCapacity(ApiModel):
    """The GPU memory that the pool's nodes offer, and its use; in GiB unless said otherwise."""

    summary: str = Field(default="", description="Allocated and total memory, for kubectl get.")
    observed_at: datetime = Field(description="When these figures last changed.")
    gpus: int = Field(default=0, description="Number of cards.")
    memory_total: int = Field(default=0, description="GPU memory that the nodes offer.")
    memory_allocated: int = Field(
        default=0, description="GPU memory allocated to pods, by the GPU scheduler's records."
    )
    memory_requested: int = Field(
        default=0,
        description="GPU memory requested by pods, including waiting pods that a node here could "
        "hold.",
    )
    largest_free_block: int = Field(
        default=0, description="The most memory that another pod can get, all on one card."
    )
    stranded_memory: int = Field(
        default=0,
        description="Free memory on cards that have less free than the pool's median request.",
    )
    unit: MemoryUnit = Field(
        default="GiB", description="Unit of the device plugin, in which pods request memory."
    )
    largest_card: int = Field(
        default=0,
        description="Memory of the largest card, in that unit. 0 while a node offers no memory, "
        "since its cards may be larger.",
    )
    free_blocks: Annotated[tuple[FreeBlock, ...], Field(max_length=20)] = Field(
        default=(),
        description="Cards by their free memory, largest first. With more than 20 sizes, those in "
        "between are rounded down.",
    )
    free_pods: int | None = Field(
        default=None,
        description="How many more pods the cards accept under cGPU, which allows 20 on a card. "
        "Not set if only memory limits that.",
    )

    @property
    def largest_free(self) -> int:
        """The largest free block in the plugin's unit, not rounded."""
        return self.free_blocks[0].size if self.free_blocks else 0


class LabelCombination(ApiModel):
    """Nodes that have the same values of the label keys."""

    nodes: int = Field(description="Number of nodes.")
    labels: Annotated[dict[str, str], Field(max_length=100)] = Field(
        default={}, description="Their labels. A key that is left out is absent from these nodes."
    )


class NodeLabels(ApiModel):
    """The labels of the pool's nodes that admission compares with what pods select."""

    keys: Annotated[tuple[str, ...], Field(max_length=100)] = Field(
        default=(), description="Label keys that the combinations show."
    )
    combinations: Annotated[tuple[LabelCombination, ...], Field(max_length=50)] = Field(
        default=(), description="Different combinations of these labels, of most nodes first."
    )
    more: int = Field(
        default=0, description="Number of nodes whose combination is left out for lack of space."
    )


class Releasing(ApiModel):
    """Nodes that a deleted pool must still release."""

    nodes: int = Field(description="Number of nodes that are left.")
    since: datetime = Field(description="When the last node finished, or releasing began.")


class PlanStep(ApiModel):
    """The change that is planned for one node."""

    node: str = Field(description="Name of the node.")
    change: str = Field(description="Its current mode and its new mode.")
    outcome: str = Field(description="What the change requires.")
    restarts_plugin: bool = Field(
        default=False, description="Whether its device plugin is restarted."
    )
    reboots: bool = Field(default=False, description="Whether it must be rebooted.")
    pods: int = Field(default=0, description="Number of pods on it that block the change.")
    blocker: str = Field(default="", description="Reason code of what blocks it, if anything.")


class Approval(ApiModel):
    """The plan that a user approved."""

    hash: str = Field(description="Hash of the approved plan.")
    kinds: Annotated[tuple[str, ...], Field(max_length=50)] = Field(
        default=(), description="Kinds of change that the approval covers."
    )


class PoolPlan(ApiModel):
    """The isolation changes that have not begun yet."""

    hash: str = Field(
        default="",
        description="Hash of the kinds of change, for rollout.approvedPlan. Empty if nothing is "
        "left to do.",
    )
    summary: str = Field(default="", description="Summary of the plan.")
    steps: Annotated[tuple[PlanStep, ...], Field(max_length=20)] = Field(
        default=(), description="Planned changes of at most 20 nodes, in their order."
    )
    approved: Approval | None = Field(
        default=None, description="The plan that rollout.approvedPlan approved, if Manual."
    )


class StaleSample(ApiModel):
    """A container whose isolation differs from its node's mode."""

    node: str = Field(description="Name of the node.")
    pod: str = Field(description="Namespace and name of the pod.")
    container: str = Field(description="Name of the container.")
    admitted: str = Field(description="Mode under which its pod was admitted.")
    isolated: bool = Field(description="Whether it is limited to its share of GPU memory.")


class Isolation(ApiModel):
    """The isolation that the containers on the pool's cards actually have."""

    containers: int = Field(default=0, description="Number of containers that share cards.")
    isolated: int = Field(
        default=0, description="Containers that are limited to their share of GPU memory."
    )
    stale: int = Field(
        default=0, description="Containers whose isolation differs from their node's mode."
    )
    opted_out: int = Field(
        default=0,
        description="Containers without isolation on isolating nodes, because of CGPU_DISABLE.",
    )
    unknown: int = Field(
        default=0, description="Containers that were admitted under an unknown mode."
    )
    samples: Annotated[tuple[StaleSample, ...], Field(max_length=20)] = Field(
        default=(), description="At most 20 containers with stale isolation."
    )


class WindowStatus(ApiModel):
    """Whether the pool's changes may begin now, and when next."""

    summary: str = Field(description="State of the windows, for kubectl get.")
    state: Literal["Open", "Closed", "Frozen"] = Field(description="Open, Closed or Frozen.")
    next_start: datetime | None = Field(
        default=None, description="When the next window starts, if none is open."
    )
    end: datetime | None = Field(default=None, description="When the open window ends.")


class StartedNow(ApiModel):
    """The plan that a user started outside the windows."""

    value: str = Field(description="Value of the annotation gpushare.io/start-now.")
    kinds: Annotated[tuple[str, ...], Field(max_length=50)] = Field(
        default=(), description="Kinds of change that begin at any time. Empty when they are done."
    )


class Recommendation(ApiModel):
    """An idle node that would move to this pool."""

    hash: str = Field(description="Hash of the move, for kubectl gpushare recommend --accept.")
    node: str = Field(description="Name of the node.")
    source: str = Field(description="The pool that the node leaves.")
    pods: int = Field(description="Number of alike pods that wait, and that it is for.")
    since: datetime = Field(description="Since when this move is recommended.")
    message: str = Field(description="Why the node would move, and what the move waits for.")


class SpecChange(ApiModel):
    """A value that a field of the spec was given, and by whom."""

    field: str = Field(
        description="Field of the spec: schedule, nvidia.config, placement or nodes."
    )
    value: str = Field(description="Its value; of nodes, and where it is long, a hash of it.")
    manager: str = Field(default="", description="Field manager that wrote it, if known.")
    at: datetime = Field(description="When the operator read it.")
    returns: bool = Field(
        default=False, description="Whether it is one of the values listed before it."
    )
    retry: str = Field(
        default="", description="Value of the annotation gpushare.io/retry at that time."
    )


class PoolStatus(ApiModel):
    """The observed state of a pool."""

    observed_generation: int = Field(
        default=0,
        description="Generation of the spec that the operator acted on; -1 "
        "before it has acted on any.",
    )
    conditions: Annotated[
        tuple[ConditionStatus, ...],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = Field(
        default=(),
        description="Ready: every member is as the spec requires. "
        "NodesLabelled: every member has its labels. RolloutComplete: no isolation change is "
        "under way or left to do. Conflicting: another field manager keeps writing the labels. "
        "IsolationConsistent: every container has the isolation of its node's mode.",
    )
    nodes: NodeCounts = Field(default=NodeCounts(), description="Number of members by state.")
    samples: Annotated[tuple[NodeSample, ...], Field(max_length=20)] = Field(
        default=(),
        description="At most 20 nodes that are not ready or have a warning, with the cause.",
    )
    capacity: PoolCapacity | None = Field(
        default=None, description="GPU memory that the nodes offer, and its use."
    )
    node_labels: NodeLabels | None = Field(
        default=None,
        description="Labels of the nodes. Admission sends no pod here that none of them matches.",
    )
    isolation: Isolation | None = Field(
        default=None, description="Isolation that the containers on the nodes actually have."
    )
    plan: PoolPlan | None = Field(
        default=None, description="Isolation changes that have not begun yet."
    )
    window: WindowStatus | None = Field(
        default=None, description="Whether changes may begin now, if the pool has windows."
    )
    started_now: StartedNow | None = Field(
        default=None, description="The plan that gpushare.io/start-now started."
    )
    recommendation: Recommendation | None = Field(
        default=None, description="The next move of an idle node to this pool, by spec.demand."
    )
    releasing: Releasing | None = Field(
        default=None, description="Nodes that are left to release while the pool is being deleted."
    )
    spec_changes: Annotated[tuple[SpecChange, ...], Field(max_length=12)] = Field(
        default=(),
        description="The last four changes of each of the fields schedule, nvidia.config, "
        "placement and nodes. A field that returns to earlier values twice within 10 minutes is "
        "contested: nothing begins for 10 minutes.",
    )

    @property
    def approval(self) -> Approval | None:
        """The plan that a user approved."""
        return self.plan.approved if self.plan is not None else None
