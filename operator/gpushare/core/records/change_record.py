"""The record of an isolation change: its phase, and what it still needs to know."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gpushare.api.pool import Edition, ModeName
from gpushare.core.records.record import Moment, PoolName, Record
from gpushare.editions.edition import Mode
from gpushare.editions.registry import find_mode, get_mode

MAX_MESSAGE = 400
"""Characters."""


class ChangePhase(StrEnum):
    """Phase of an isolation change on a node."""

    DEFERRED = "Deferred"
    """A pod arrived while the node was being cordoned; let go, and waiting for another try."""
    CORDONED = "Cordoned"
    LABELLED = "Labelled"
    RESTARTING = "Restarting"
    UNINSTALLED = "Uninstalled"
    """The kernel module's files are removed, and it is gone with the next boot."""
    REBOOTED = "Rebooted"


class PluginPod(Record):
    """A device plugin's pod, named so that just this one can be deleted."""

    name: str
    uid: str


class Failure(Record):
    """Why a change failed. It halts the pool until the attempt is another one."""

    attempt: str
    """The pool's spec and the retry annotations for which it failed."""
    phase: ChangePhase
    reason: str
    message: Annotated[str, Field(max_length=MAX_MESSAGE)]
    at: Moment

    def describe(self, node: str) -> str:
        """Describe which node failed, in which phase, and why."""
        return f"Node {node} failed in phase {self.phase}: {self.message}"


class Teardown(Record):
    """The teardown of a change, which ends only in another boot, in which no module is loaded."""

    attempt: int = 1
    """Jobs are named by it, so that each is made once."""
    not_ready: Literal[True] | None = None
    """The node is not ready: it reboots, or it died. The deadline runs from when that was seen."""
    consumed: Literal[True] | None = None
    """The person's `done` that stands on the node was said of something else: of a teardown before
    this one, of a boot before this one, or before something may have loaded the module again."""


class Maintenance(StrEnum):
    """Another controller's work on the node during its change, and what became of the cordon.

    It stands on the node, so that no restart forgets whose an uncordon is: the other controller's
    until this is taken away, which also starts the deadline again.
    """

    AT_WORK = "AtWork"
    CORDONED_AGAIN = "CordonedAgain"
    """Somebody uncordoned the node meanwhile."""


class Change(Record):
    """An isolation change under way."""

    v: Literal[2] = 2
    node_uid: str | None = Field(default=None, alias="nodeUID")
    """The node that it is of: on another one it is a copy."""
    pool: PoolName
    edition: Edition
    from_mode: ModeName = Field(alias="from")
    to: ModeName
    phase: ChangePhase
    since: Moment
    claim: str = ""
    """Spec for which it began; drift is counted by it."""
    restart: bool = False
    """The plugin's pod must be deleted."""
    initializing: bool = False
    """The node has just come: it takes no capacity away, so it uses no budget."""
    was_schedulable: Literal[True] | None = None
    """Nobody else had cordoned the node when it began: the cordon is the change's own."""
    has_shown_card: Literal[True] | None = None
    """Something showed, when it began, that the node that has just come has a card."""
    labelled_at: Moment | None = None
    """The deadline runs from here. Already set at the cordon: the change follows one that failed,
    so the node was out of service before, and is not let go unverified."""
    not_before: Moment | None = None
    why: Annotated[str, Field(max_length=MAX_MESSAGE)] | None = None
    """Why the change was deferred until that time."""
    plugins: tuple[PluginPod, ...] = ()
    """The plugin's pods of this change: these are deleted, each once, and no others."""
    before: tuple[str, ...] = ()
    """UIDs of the GPU pods that were bound when the labels were written or the plugin replaced."""
    admitted: Mapping[str, ModeName] | None = None
    """The mode under which those of them were admitted of which that is known."""
    boot_id: str | None = Field(default=None, alias="bootID")
    """The boot in which that was so: no GPU pod outlives it."""
    teardown: Teardown | None = None
    restarted_again: Literal[True] | None = None
    """The plugin was restarted once more, since it had come back without its resource."""
    lacking_cards: int | None = Field(default=None, ge=0)
    """Number of cards that the node did not offer when the change began."""
    maintenance: Maintenance | None = None
    """Another controller was at work on the node when that was last looked at."""
    failure: Failure | None = None
    """Failure of the change, which is still finished if its plugin returns."""
    rolls_back: Failure | None = None
    """Failure of the change that this one rolls back."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        for schedule in (self.from_mode, self.to):
            if find_mode(self.edition, schedule) is None:
                raise ValueError(f"the {self.edition} edition has no mode {schedule}")
        if self.is_labelled and self.labelled_at is None:
            raise ValueError(f"labelledAt is missing in phase {self.phase}")
        if self.phase in (ChangePhase.UNINSTALLED, ChangePhase.REBOOTED) and self.teardown is None:
            raise ValueError(f"teardown is missing in phase {self.phase}")
        return self

    @property
    def mode(self) -> Mode:
        """The mode that it leads to."""
        return get_mode(self.edition, self.to)

    @property
    def is_under_way(self) -> bool:
        return self.phase is not ChangePhase.DEFERRED

    @property
    def is_only_cordoned(self) -> bool:
        """Whether the change has only cordoned its node, and can be aborted without a trace."""
        return self.phase is ChangePhase.CORDONED and self.labelled_at is None

    @property
    def is_labelled(self) -> bool:
        """Whether the labels of `to` are on the node."""
        return self.phase not in (ChangePhase.DEFERRED, ChangePhase.CORDONED)
