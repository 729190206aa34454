"""A GPUSharePool with a part that this version does not know, as after a downgrade."""

from dataclasses import dataclass

from gpushare.api.status import PoolStatus


@dataclass(frozen=True, slots=True)
class UnreadablePool:
    """What of it can be read, and why the rest can't."""

    name: str
    uid: str
    generation: int
    status: PoolStatus
    error: str
    resource_version: int = 0

    @property
    def part(self) -> str:
        """What of it can't be read: `spec`, `status` or `metadata`."""
        return self.error.partition(".")[0]
