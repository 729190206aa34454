"""Defines how nodes of a pool change: `spec.rollout`, `spec.isolationTeardown`, `spec.demand`."""

from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from pydantic import Field

from gpushare.api.model import ApiModel
from gpushare.api.windows import (
    MAX_WINDOWS,
    Duration,
    Freeze,
    MaintenanceWindow,
    parse_duration,
)


class FailurePolicy(StrEnum):
    """Policy for a node whose change failed; the pool is halted either way."""

    HALT = "Halt"
    ROLLBACK = "Rollback"


class ApprovalPolicy(StrEnum):
    """Whether a user must approve a plan before it is carried out."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class WorkloadPolicy(StrEnum):
    """Policy for pods that block a change."""

    WAIT = "Wait"
    CORDON_AND_WAIT = "CordonAndWait"
    EVICT = "Evict"


class StaleWorkloadPolicy(StrEnum):
    """Policy for containers with an isolation that their node no longer gives."""

    REPORT = "Report"
    EVICT = "Evict"


class NewNodesPolicy(StrEnum):
    """When a node that joins changes, if no pod uses its GPUs yet."""

    ANYTIME = "Anytime"
    IN_WINDOW = "InWindow"


PERCENTAGE = "^(100|[1-9][0-9]?)%$"
IntOrPercentage = Annotated[
    Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=PERCENTAGE)],
    Field(json_schema_extra={"x-kubernetes-int-or-string": True}),
]


class Rollout(ApiModel):
    """How an isolation change goes over the nodes of a pool."""

    max_unavailable: IntOrPercentage = Field(
        default=1,
        description="How many nodes may be unavailable at once: a number, or a percentage of the "
        "pool's nodes (rounded down, at least 1). Nodes that are cordoned or not Ready count.",
    )
    canary: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="How many nodes must be changed and verified before any other node begins.",
    )
    ready_timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=86400,
        description="How long after its labels are written a node's device plugin may take to "
        "return and be verified, before the change fails. If not set, the setting of the "
        "installation applies (600).",
    )
    on_failure: FailurePolicy = Field(
        default=FailurePolicy.HALT,
        description="What happens to a node whose change fails; the pool is halted in any case. "
        "Halt: the node stays cordoned. Rollback: it is changed back, if that needs no teardown.",
    )
    approval: ApprovalPolicy = Field(
        default=ApprovalPolicy.AUTOMATIC,
        description="Automatic: changes begin at once. Manual: no change begins until approvedPlan "
        "is the hash of status.plan.",
    )
    approved_plan: Annotated[str, Field(max_length=64)] | None = Field(
        default=None,
        description="Hash of the approved plan. It covers the kinds of change, not the nodes, and "
        "remains valid until the plan contains a new kind of change.",
    )
    workloads: WorkloadPolicy = Field(
        default=WorkloadPolicy.WAIT,
        description="How to deal with pods that block a change. Wait: the node is not cordoned "
        "until they are gone. CordonAndWait: the node is cordoned first, within the budget. "
        "Evict: they are evicted from the cordoned node, if the installation allows evictions.",
    )
    stale_workloads: StaleWorkloadPolicy = Field(
        default=StaleWorkloadPolicy.REPORT,
        description="How to deal with containers that still have the isolation of a former mode, "
        "under which they were admitted. Report: they are counted and named. Evict: their pods are "
        "also evicted, within maxUnavailable and their disruption budgets, if the installation "
        "allows evictions.",
    )
    windows: Annotated[tuple[MaintenanceWindow, ...], Field(max_length=MAX_WINDOWS)] = Field(
        default=(),
        description="When isolation changes and evictions may begin. If empty, at any time. A "
        "change begins only if it is expected to be done before the window ends, and one that has "
        "labelled its node is finished. Windows that overlap count as one.",
    )
    new_nodes: NewNodesPolicy = Field(
        default=NewNodesPolicy.ANYTIME,
        description="When nodes that join, and whose GPUs no pod uses, are changed. Anytime: at "
        "once. InWindow: in a window, as all other nodes.",
    )
    freeze: Freeze | None = Field(
        default=None,
        description="While it holds, no change and no eviction begins, in a window or not.",
    )


class TeardownPolicy(StrEnum):
    """Policy for the removal of the cGPU kernel module from a node."""

    MANUAL = "Manual"
    JOB = "Job"


class RebootPolicy(StrEnum):
    """Policy for the reboot of a node whose module was removed, never by this operator."""

    MANUAL = "Manual"
    SENTINEL = "Sentinel"


class IsolationTeardown(ApiModel):
    """How a node changes from cgpu or core_mem to share on the Professional edition.

    Isolation stays on until the kernel module is uninstalled and the node rebooted (vendor's guide
    on node pools, Professional edition).
    """

    policy: TeardownPolicy = Field(
        default=TeardownPolicy.MANUAL,
        description="Who removes the cGPU kernel module. Manual: a user begins on a node with the "
        "annotation gpushare.io/teardown=start, runs the commands in the Event on the node, and "
        "ends with gpushare.io/teardown=done. Job: a privileged Job removes the module, and "
        "another one verifies it after the reboot, if the installation allows teardown Jobs.",
    )
    reboot: RebootPolicy = Field(
        default=RebootPolicy.MANUAL,
        description="Who reboots the node after the Job. Manual: the node waits until a user "
        "reboots it. Sentinel: the Job creates the file that kured watches, and kured reboots the "
        "node within its windows and locks.",
    )


class DemandMode(StrEnum):
    """Who moves a node to where pods wait."""

    RECOMMEND = "Recommend"
    AUTOMATIC = "Automatic"


_PENDING_FOR = {DemandMode.RECOMMEND: "2m", DemandMode.AUTOMATIC: "10m"}


class DemandPolicy(ApiModel):
    """When an idle node moves between this pool and another one with `demand`."""

    mode: DemandMode = Field(
        default=DemandMode.RECOMMEND,
        description="Recommend: the status shows the next move, and a user accepts it. Automatic: "
        "it is made, if the pool that the node leaves is Automatic too.",
    )
    pending_for: Duration | None = Field(
        default=None,
        description="How long pods of this pool must have waited for room, such as 2m. If not set, "
        "2m with Recommend, and 10m with Automatic, since a cluster autoscaler may add a node.",
    )
    idle_for: Duration = Field(
        default="30m",
        description="How long a node of this pool must have held no GPU pod before it leaves.",
    )

    @cached_property
    def pending_time(self) -> timedelta:
        """How long pods must have waited."""
        return parse_duration(self.pending_for or _PENDING_FOR[self.mode])

    @cached_property
    def idle_time(self) -> timedelta:
        """How long a node must have held no GPU pod."""
        return parse_duration(self.idle_for)
