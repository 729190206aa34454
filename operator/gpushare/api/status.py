"""The status of a GPUSharePool: bounded, whatever the pool's size."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from gpushare.api.model import ApiModel

MemoryUnit = Literal["GiB", "MiB"]
"""What device plugins count GPU memory in."""


class NodeCounts(ApiModel):
    """How many members are where."""

    matched: int = Field(default=0, description="Members of the pool.")
    ready: int = Field(default=0, description="Applied, verified, nothing under way.")
    updating: int = Field(default=0, description="In their change.")
    waiting: int = Field(default=0, description="For their turn, or to be Ready.")
    blocked: int = Field(default=0, description="Held up by something else.")
    failed: int = Field(default=0, description="Their change failed.")


class NodeSample(ApiModel):
    """One node that is not ready, or ready with a warning, and why."""

    node: str = Field(description="Name of the node.")
    reason: str = Field(description="Reason code.")
    since: datetime = Field(description="Since when for this reason.")
    message: str = Field(description="What it waits for, and what would unblock it.")
    deadline: datetime | None = Field(default=None, description="When it counts as failed.")


class ConditionStatus(ApiModel):
    """A condition, as in the Kubernetes API conventions."""

    type: str = Field(description="Type of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: int = Field(default=0, description="Generation that it speaks of.")
    last_transition_time: datetime = Field(description="When the status last changed.")
    reason: str = Field(description="Reason code.")
    message: str = Field(description="A sentence for a person.")


class FreeBlock(ApiModel):
    """Cards that have the same amount of memory free."""

    size: int = Field(description="Free memory of each, in the unit of the device plugin.")
    cards: int = Field(description="How many cards.")


class PoolCapacity(ApiModel):
    """What the pool's nodes offer, and what of it is given out; memory in GiB."""

    summary: str = Field(
        default="", description="Allocated and total memory in one word, for kubectl get."
    )
    observed_at: datetime = Field(description="When these figures last changed.")
    gpus: int = Field(default=0, description="Cards.")
    memory_total: int = Field(default=0, description="GPU memory that the nodes offer.")
    memory_allocated: int = Field(
        default=0, description="GPU memory that the scheduler gave to pods, by its own ledger."
    )
    memory_requested: int = Field(
        default=0,
        description="GPU memory that pods ask for, those included that wait for a node here.",
    )
    largest_free_block: int = Field(
        default=0, description="The most that one more pod can get: it must fit on one card."
    )
    stranded_memory: int = Field(
        default=0,
        description="Free memory on cards that have less of it than the pool's median request.",
    )
    unit: MemoryUnit = Field(
        default="GiB", description="Unit of the device plugin, in which pods ask."
    )
    largest_card: int = Field(
        default=0,
        description="Memory of the largest card, in that unit; 0 while some node offers none, "
        "since its cards may be larger.",
    )
    free_blocks: Annotated[tuple[FreeBlock, ...], Field(max_length=20)] = Field(
        default=(),
        description="The free memory card by card, largest first. Where there are more sizes than "
        "20, the sizes between are rounded down.",
    )
    free_pods: int | None = Field(
        default=None,
        description="How many more pods those cards take under cGPU, which serves 20 on a card; "
        "absent where only memory limits that.",
    )

    @property
    def largest_free(self) -> int:
        """`largest_free_block`, in the plugin's unit and not rounded."""
        return self.free_blocks[0].size if self.free_blocks else 0


class Releasing(ApiModel):
    """Nodes that a pool which is being deleted must still give back."""

    nodes: int = Field(description="How many.")
    since: datetime = Field(description="Since when none of them finished.")


class PlanStep(ApiModel):
    """What is still to be done to one node."""

    node: str = Field(description="Name of the node.")
    change: str = Field(description="The mode that it is in and the one that it gets.")
    outcome: str = Field(description="What that change needs.")
    restarts_plugin: bool = Field(default=False, description="Its device plugin is restarted.")
    reboots: bool = Field(default=False, description="It must be rebooted.")
    pods: int = Field(default=0, description="Pods on it that hold the change up.")
    blocker: str = Field(default="", description="Reason code of what it waits for, if anything.")


class Approval(ApiModel):
    """What a person agreed to."""

    hash: str = Field(description="The plan's hash at that time.")
    kinds: Annotated[tuple[str, ...], Field(max_length=50)] = Field(
        default=(), description="Kinds of change that it covers."
    )


class PoolPlan(ApiModel):
    """The isolation changes that have not begun yet."""

    hash: str = Field(
        default="",
        description="Of the kinds of change, for rollout.approvedPlan. Empty: nothing is left.",
    )
    summary: str = Field(default="", description="The plan in a sentence.")
    steps: Annotated[tuple[PlanStep, ...], Field(max_length=20)] = Field(
        default=(), description="At most 20 nodes, in the order in which they are changed."
    )
    approved: Approval | None = Field(
        default=None, description="With approval Manual: what rollout.approvedPlan agreed to."
    )


class StaleSample(ApiModel):
    """A container whose isolation is not what its node's mode gives."""

    node: str = Field(description="Name of the node.")
    pod: str = Field(description="Namespace and name of the pod.")
    container: str = Field(description="Name of the container.")
    admitted: str = Field(description="Mode under which its pod was admitted.")
    isolated: bool = Field(description="Whether it is kept to its share of GPU memory.")


class Isolation(ApiModel):
    """What isolation the containers that share the pool's cards really have."""

    containers: int = Field(default=0, description="Containers that share cards.")
    isolated: int = Field(default=0, description="Kept to their share of GPU memory.")
    stale: int = Field(
        default=0, description="Their isolation is not what their node's mode gives."
    )
    opted_out: int = Field(
        default=0, description="On a node that isolates, and without, by CGPU_DISABLE."
    )
    unknown: int = Field(default=0, description="Nobody knows under which mode they were admitted.")
    samples: Annotated[tuple[StaleSample, ...], Field(max_length=20)] = Field(
        default=(), description="At most 20 stale ones."
    )


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
    ] = Field(
        default=(),
        description="Ready: every member is as the spec says. "
        "NodesLabelled: every member carries its labels. RolloutComplete: no isolation change is "
        "under way or left to do. Conflicting: another manager keeps writing the labels. "
        "IsolationConsistent: every container has the isolation that its node's mode gives.",
    )
    nodes: NodeCounts = Field(default=NodeCounts(), description="How many members are where.")
    samples: Annotated[tuple[NodeSample, ...], Field(max_length=20)] = Field(
        default=(),
        description="At most 20 nodes that are not ready, or ready with a warning, and why.",
    )
    capacity: PoolCapacity | None = Field(
        default=None, description="What the nodes offer, and what of it is given out."
    )
    isolation: Isolation | None = Field(
        default=None, description="What isolation the containers on the nodes really have."
    )
    plan: PoolPlan | None = Field(
        default=None, description="Isolation changes that are left to do, before they are done."
    )
    releasing: Releasing | None = Field(
        default=None, description="While the pool is being deleted: what is left to do."
    )

    @property
    def approval(self) -> Approval | None:
        """What a person agreed to of the plan."""
        return self.plan.approved if self.plan is not None else None
