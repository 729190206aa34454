"""How a node stops isolating for good: `spec.isolationTeardown` of a GPUSharePool."""

from enum import StrEnum

from pydantic import Field

from gpushare.api.model import ApiModel


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
