"""Defines whether nodes move to a pool where pods wait: `spec.demand`."""

from datetime import timedelta
from enum import StrEnum
from functools import cached_property

from pydantic import Field

from gpushare.api.model import ApiModel
from gpushare.api.windows import Duration, parse_duration


class DemandMode(StrEnum):
    """Who moves a node to where pods wait."""

    RECOMMEND = "Recommend"
    AUTOMATIC = "Automatic"


_PENDING_FOR = {DemandMode.RECOMMEND: "2m", DemandMode.AUTOMATIC: "10m"}


class Demand(ApiModel):
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
