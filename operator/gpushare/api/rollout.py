"""How a pool wants its nodes changed: `spec.rollout` and `spec.isolationTeardown`."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpushare.api.model import ApiModel


class FailurePolicy(StrEnum):
    """What happens to a node whose change failed; the pool is halted either way."""

    HALT = "Halt"
    ROLLBACK = "Rollback"


class ApprovalPolicy(StrEnum):
    """Whether a person must agree to a plan before it is carried out."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class WorkloadPolicy(StrEnum):
    """What is done about pods that hold a change up."""

    WAIT = "Wait"
    CORDON_AND_WAIT = "CordonAndWait"
    EVICT = "Evict"


class StaleWorkloadPolicy(StrEnum):
    """What is done about containers that keep an isolation which their node no longer gives."""

    REPORT = "Report"
    EVICT = "Evict"


PERCENTAGE = "^(100|[1-9][0-9]?)%$"
IntOrPercentage = Annotated[
    Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=PERCENTAGE)],
    Field(json_schema_extra={"x-kubernetes-int-or-string": True}),
]


class Rollout(ApiModel):
    """How an isolation change goes over the nodes of a pool."""

    max_unavailable: IntOrPercentage = Field(
        default=1,
        description="Nodes that may be out of service at once: a number, or a percentage of the "
        "pool's nodes (rounded down, at least 1). Nodes that are not ready or cordoned count.",
    )
    canary: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="So many nodes must have been changed and verified before any other begins.",
    )
    ready_timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=86400,
        description="From a node's labels to its plugin's verified return; later means failed. "
        "Absent: as the installation says (600).",
    )
    on_failure: FailurePolicy = Field(
        default=FailurePolicy.HALT,
        description="A node that fails halts the pool. Halt: the node stays cordoned as it is. "
        "Rollback: it is changed back, where that needs no teardown.",
    )
    approval: ApprovalPolicy = Field(
        default=ApprovalPolicy.AUTOMATIC,
        description="Manual: no change begins before approvedPlan carries the hash of status.plan.",
    )
    approved_plan: Annotated[str, Field(max_length=64)] | None = Field(
        default=None,
        description="Hash of the plan that a person agreed to. It covers the kinds of change, not "
        "the nodes: it holds until a kind appears that was not in it.",
    )
    workloads: WorkloadPolicy = Field(
        default=WorkloadPolicy.WAIT,
        description="Pods that hold a change up. Wait: the node stays in service until they are "
        "gone. CordonAndWait: it is cordoned first, within the budget. Evict: they are evicted "
        "from the cordoned node, where the installation allows that.",
    )
    stale_workloads: StaleWorkloadPolicy = Field(
        default=StaleWorkloadPolicy.REPORT,
        description="Containers that keep the isolation of a former mode, since they were admitted "
        "under it. Report: they are counted and named. Evict: their pods are evicted too, within "
        "maxUnavailable and their disruption budgets, where the installation allows that.",
    )


class TeardownPolicy(StrEnum):
    """Who removes the cGPU kernel module from a node."""

    MANUAL = "Manual"
    JOB = "Job"


class RebootPolicy(StrEnum):
    """Who reboots a node whose module was removed: never this operator."""

    MANUAL = "Manual"
    SENTINEL = "Sentinel"


class IsolationTeardown(ApiModel):
    """What leaving cgpu or core_mem for share takes on the Professional edition.

    Isolation stays on until the kernel module is uninstalled and the node rebooted (vendor's guide
    on node pools, Professional edition).
    """

    policy: TeardownPolicy = Field(
        default=TeardownPolicy.MANUAL,
        description="Manual: nothing begins on a node before somebody annotates it "
        "gpushare.io/teardown=start; its Event says what to type there, and "
        "gpushare.io/teardown=done says that it is done. Job: a privileged Job removes the module, "
        "and another one looks after the reboot, where the installation allows that.",
    )
    reboot: RebootPolicy = Field(
        default=RebootPolicy.MANUAL,
        description="Manual: the node waits until somebody reboots it. Sentinel: the Job leaves "
        "the file that kured watches, whose windows and locks then apply.",
    )
