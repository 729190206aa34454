"""The record of the mode that was last applied to a node, and of what ran then."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Edition, ModeName
from gpushare.core.records.change_record import Failure
from gpushare.core.records.record import Moment, PoolName, Record
from gpushare.editions.edition import Mode
from gpushare.editions.registry import find_mode, get_mode


class LastApplied(Record):
    """The mode that was last applied to a node, and the plugin that ran then."""

    v: Literal[2] = 2
    node_uid: str | None = Field(default=None, alias="nodeUID")
    """The node that it is of: on another one it is a copy."""
    pool: PoolName
    edition: Edition
    schedule: ModeName
    boot_id: str = Field(default="", alias="bootID")
    plugins: Mapping[str, int] = {}
    """The plugin's pods at that time: UID and container restarts."""
    before: tuple[str, ...] = ()
    """UIDs of the GPU pods that were bound before this mode was in force: they still have the
    isolation that they were admitted with. None of them outlives the boot."""
    admitted: Mapping[str, ModeName] | None = None
    """The mode under which those of them were admitted of which that is known."""
    restart_pending: bool = False
    """The labels are written, and the pool leaves restarting the plugin to a person. It gives the
    mode before until its kubelet restarts, of which nothing tells."""
    mode_unknown: Literal[True] | None = None
    """The plugin may have read another writer's label, so its mode is unknown until `plugins` names
    another process. A plugin that follows its label serves another mode by now, but pods may hold
    the devices of the mode before, until a change."""
    reverted: Literal["SamePlugin", "OtherPlugin"] | None = None
    """Somebody else's label was replaced a moment ago: a plugin that is told of from now on may
    have started before that. With a mode of another plugin that is only one that restarted: this
    one's pods come back when its own label does."""
    from_mode: ModeName | None = Field(default=None, alias="from")
    """The mode that a change left for this one; absent where none was needed, or it joined."""
    joined_at: Moment | None = None
    """Time at which a change verified the node's join to the pool."""
    took_seconds: float | None = Field(default=None, ge=0)
    """Seconds from the labels to the end of that change, if it restarted the plugin and succeeded.
    """
    lacking_cards: int | None = Field(default=None, ge=0)
    """Number of cards that the node did not offer before that change."""
    failure: Failure | None = None
    """Failure of that change, if it was rolled back or finished too late."""

    @property
    def mode(self) -> Mode:
        """The mode that was applied."""
        return get_mode(self.edition, self.schedule)

    @property
    def needs_restart(self) -> bool:
        """Whether the plugin must restart before its mode is known."""
        return bool(self.restart_pending or self.mode_unknown)

    def is_of(self, mode: Mode) -> bool:
        """Tell whether it is this very mode that was applied."""
        return (self.edition, self.schedule) == (mode.edition, mode.schedule)

    def is_of_another_boot(self, node: Node) -> bool:
        """Tell whether the node has booted since; False where no boot was recorded."""
        return self.boot_id not in ("", node.boot_id)

    def left(self, mode: Mode) -> bool:
        """Tell whether it was `mode` that was left for this one, as a rollback does."""
        return (self.edition, self.from_mode) == (mode.edition, mode.schedule) and not self.is_of(
            mode
        )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if find_mode(self.edition, self.schedule) is None:
            raise ValueError(f"the {self.edition} edition has no mode {self.schedule}")
        return self
