"""A GPUSharePool whose spec, or status, is none that this version knows, as after a downgrade."""

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

    @property
    def part(self) -> str:
        """What of it can't be read: `spec` or `status`."""
        return "status" if self.error.startswith("status") else "spec"
