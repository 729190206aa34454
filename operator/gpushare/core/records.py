"""What we remember on a node: the annotations `found`, `change`, `applied`, `drift` and `module`.

Nothing about a node is remembered in the process. Each record carries its version: a record of
another one is left alone rather than misread. Within a version fields may be added: one that this
operator does not know is ignored, and kept for the newer operator that wrote it.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pool import EDITION_SCHEDULES, Edition, Schedule
from gpushare.core.modes import Mode
from gpushare.core.systemdisk import describe_disk, is_disk_replaced


def _is_of_our_time(moment: datetime) -> datetime:
    """A time that can be reckoned with: at the ends of the calendar, sums overflow."""
    if not _FIRST_YEAR <= moment.year < _LAST_YEAR:
        raise ValueError(f"a year from {_FIRST_YEAR} to {_LAST_YEAR - 1} was expected")
    return moment


_FIRST_YEAR, _LAST_YEAR = 2000, 2200
Moment = Annotated[
    AwareDatetime,
    AfterValidator(_is_of_our_time),
    PlainSerializer(lambda moment: moment.isoformat(timespec="milliseconds")),
]
PoolName = Annotated[str, Field(pattern="^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")]
"""It becomes the value of a label."""


class RecordError(ValueError):
    """An annotation of ours that can't be read; the message says which, and what to do."""


class Step(StrEnum):
    """How far an isolation change on a node is."""

    DEFERRED = "Deferred"
    """A pod arrived while the node was being cordoned; let go, and waiting for another try."""
    CORDONED = "Cordoned"
    LABELLED = "Labelled"
    RESTARTING = "Restarting"
    UNINSTALLED = "Uninstalled"
    """The kernel module's files are removed, and it is gone with the next boot."""
    REBOOTED = "Rebooted"


class _Record(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="allow"
    )

    def dump(self) -> str:
        """Compact JSON; what is absent is left out."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


class PluginPod(_Record):
    """A device plugin's pod, named so that just this one can be deleted."""

    name: str
    uid: str


class Failure(_Record):
    """Why a change failed. It halts the pool until the attempt is another one."""

    attempt: str
    """The pool's spec and the retry annotations for which it failed."""
    step: Step
    reason: str
    message: Annotated[str, Field(max_length=400)]
    at: Moment


class Teardown(_Record):
    """Of a change that ends only in another boot, in which no kernel module is loaded."""

    attempt: int = 1
    """Jobs are named by it, so that each is made once."""
    down: Literal[True] | None = None
    """The node is not ready: it reboots, or it died. The deadline runs from when that was seen."""
    spent: Literal[True] | None = None
    """The person's `done` that stands on the node was said of something else: of a teardown before
    this one, of a boot before this one, or before something may have loaded the module again."""


class Change(_Record):
    """An isolation change under way."""

    v: Literal[1] = 1
    pool: PoolName
    edition: Edition
    of: Schedule = Field(alias="from")
    to: Schedule
    step: Step
    since: Moment
    claim: str = ""
    """Spec for which it began; drift is counted by it."""
    restart: bool = False
    """The plugin's pod must be deleted."""
    joining: bool = False
    """The node has just come: it takes no capacity away, so it uses no budget."""
    labelled_at: Moment | None = None
    """The deadline runs from here. Already set at the cordon: the change follows one that failed,
    so the node was out of service before, and is not let go unverified."""
    not_before: Moment | None = None
    plugins: tuple[PluginPod, ...] = ()
    """The plugin's pods of this change: these are deleted, each once, and no others."""
    before: tuple[str, ...] = ()
    """UIDs of the GPU pods that were bound when the labels were written or the plugin replaced."""
    admitted: Mapping[str, Schedule] | None = None
    """The mode under which those of them were admitted of which that is known."""
    boot_id: str | None = Field(default=None, alias="bootID")
    """The boot in which that was so: no GPU pod outlives it."""
    teardown: Teardown | None = None
    renewed: Literal[True] | None = None
    """The plugin was restarted once more, since it had come back without its resource."""
    failure: Failure | None = None
    """It failed. It is finished all the same, if its plugin returns after all."""
    undoes: Failure | None = None
    """It takes a change back that failed."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        for schedule in (self.of, self.to):
            if schedule not in EDITION_SCHEDULES[self.edition]:
                raise ValueError(f"the {self.edition} edition has no mode {schedule}")
        if self.is_labelled and self.labelled_at is None:
            raise ValueError(f"labelledAt is missing at the step {self.step}")
        return self

    @property
    def is_under_way(self) -> bool:
        return self.step is not Step.DEFERRED

    @property
    def is_labelled(self) -> bool:
        """The labels of `to` are on the node."""
        return self.step not in (Step.DEFERRED, Step.CORDONED)


class Applied(_Record):
    """What was last applied, and what ran at that time."""

    v: Literal[1] = 1
    pool: PoolName
    edition: Edition
    schedule: Schedule
    boot_id: str = Field(default="", alias="bootID")
    plugins: Mapping[str, int] = {}
    """The plugin's pods at that time: UID and container restarts."""
    before: tuple[str, ...] = ()
    """UIDs of the GPU pods that were bound before this mode was in force: they still have the
    isolation that they were admitted with. None of them outlives the boot."""
    admitted: Mapping[str, Schedule] | None = None
    """The mode under which those of them were admitted of which that is known."""
    awaits_restart: bool = False
    """The labels are written, and the pool leaves restarting the plugin to a person. It gives the
    mode before until its kubelet restarts, of which nothing tells."""
    mode_unknown: Literal[True] | None = None
    """Its plugin may have read somebody else's label: nobody knows which mode it gives, until it is
    another process than `plugins` says."""
    put_back: Literal["SamePlugin", "OtherPlugin"] | None = None
    """Somebody else's label was replaced a moment ago: a plugin that is told of from now on may
    have started before that. With a mode of another plugin that is only one that restarted: this
    one's pods come back when its own label does."""
    of: Schedule | None = Field(default=None, alias="from")
    """The mode that a change left for this one; absent where none was needed, or it joined."""
    failure: Failure | None = None
    """That change failed: it was rolled back, or came to its end too late."""

    @property
    def needs_restart(self) -> bool:
        """Whether the plugin must read the labels before anybody knows what it gives."""
        return bool(self.awaits_restart or self.mode_unknown)

    def is_of(self, mode: Mode) -> bool:
        """Whether it is this very mode that was applied."""
        return (self.edition, self.schedule) == (mode.edition, mode.schedule)

    def is_of_another_boot(self, node: Node) -> bool:
        """Whether the node has booted since; where no boot was recorded nobody knows."""
        return self.boot_id not in ("", node.boot_id)

    def left(self, mode: Mode) -> bool:
        """Whether it was `mode` that was left for this one, as a rollback does."""
        return (self.edition, self.of) == (mode.edition, mode.schedule) and not self.is_of(mode)

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.schedule not in EDITION_SCHEDULES[self.edition]:
            raise ValueError(f"the {self.edition} edition has no mode {self.schedule}")
        return self


class Repair(_Record):
    """A label of ours that was put back."""

    key: str
    manager: str
    """Field manager whose value it had; empty where the key was removed: that leaves no name."""
    theirs: str | None = None
    at: Moment


class Rival(_Record):
    """Another manager that keeps writing a label of ours, and that we gave way to."""

    key: str
    manager: str
    ours: str
    theirs: str | None = None
    since: Moment


class Drift(_Record):
    """What others did to our labels of late. On the node, so that a restart forgets no fight."""

    v: Literal[1] = 1
    claim: str = ""
    """Spec for which all of this was; another one begins anew."""
    retry: str = ""
    """What a person's annotation said then; another value begins anew."""
    repairs: tuple[Repair, ...] = ()
    rivals: tuple[Rival, ...] = ()
    writes: tuple[Moment, ...] = ()
    """Our last writes for the sake of drift: they set the pace of the next."""


_FOUND: TypeAdapter[dict[str, str | None]] = TypeAdapter(dict[str, str | None])


class NodeRecords(BaseModel):
    """The records of one node."""

    model_config = ConfigDict(frozen=True)

    found: Mapping[str, str | None] | None = None
    change: Change | None = None
    applied: Applied | None = None
    drift: Drift | None = None
    module: bool = False
    """The cGPU kernel module may be loaded, and nobody has shown since that it is gone. Nodes that
    an older operator brought to a mode that isolates do not say so, but by their mode."""

    disk: str = names.MODULE_LOADED
    """The system disk that the node runs from: written where `module` is."""
    mode_unknown: bool = False
    """The pool that had the node before left it with a plugin that may give another mode than its
    labels say."""

    def annotations(self) -> dict[str, str]:
        """The annotations that say the same."""
        result: dict[str, str] = {}
        if self.found is not None:
            result[names.ANNOTATION_FOUND] = _FOUND.dump_json(dict(self.found)).decode()
        if self.change is not None:
            result[names.ANNOTATION_CHANGE] = self.change.dump()
        if self.applied is not None:
            result[names.ANNOTATION_APPLIED] = self.applied.dump()
        if self.drift is not None:
            result[names.ANNOTATION_DRIFT] = self.drift.dump()
        if self.module:
            result[names.ANNOTATION_MODULE] = self.disk
        if self.mode_unknown:
            result[names.ANNOTATION_MODE_UNKNOWN] = "true"
        return result


def parse_records(node: Node) -> NodeRecords:
    """Read the records of `node`.

    Raises `RecordError` for one that is not ours or of another version: somebody edited it, or
    another version of the operator was here, and acting on a guess could restart what must not.
    """
    found, change, applied, drift = (
        node.annotations.get(key)
        for key in (
            names.ANNOTATION_FOUND,
            names.ANNOTATION_CHANGE,
            names.ANNOTATION_APPLIED,
            names.ANNOTATION_DRIFT,
        )
    )
    try:
        return NodeRecords(
            found=_FOUND.validate_json(found) if found else None,
            change=Change.model_validate_json(change) if change else None,
            applied=Applied.model_validate_json(applied) if applied else None,
            drift=Drift.model_validate_json(drift) if drift else None,
            # Whatever it says, unless it is proven that it is said of another disk.
            module=names.ANNOTATION_MODULE in node.annotations and not is_disk_replaced(node),
            disk=describe_disk(node),
            mode_unknown=names.ANNOTATION_MODE_UNKNOWN in node.annotations,
        )
    except ValidationError as error:
        where = error.title
        raise RecordError(
            f"node {node.name}: the annotations {names.GROUP}/found, /change, /applied and /drift "
            f"can't be read ({where}: {error.errors()[0]['msg']}). If a newer operator wrote them, "
            "run that one; else remove the broken annotation."
        ) from error


def extend_found(
    found: Mapping[str, str | None] | None, node: Node, keys: frozenset[str]
) -> dict[str, str | None]:
    """`found`, with the values that `keys` have on `node` before we own them."""
    result = dict(found or {})
    for key in sorted(keys - node.owned):
        result.setdefault(key, node.labels.get(key))
    return result
