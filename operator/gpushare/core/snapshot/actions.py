"""Actions on a node or a pool, as values that are carried out elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.records.drift_record import LabelConflict
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.rollout.change_kinds import ChangeKind
from gpushare.core.snapshot.isolation_label import find_isolation_label
from gpushare.names import Reason

READY_WITH_WARNING = frozenset(
    {Reason.EXTENDER_STALE, Reason.CONFIG_CHANGED, Reason.UNHEALTHY_CARDS}
)
"""Reasons that hold no node up: it is ready, and a person should know of it all the same. Whoever
may edit pods can forge the sign of a stale extender."""


class NodeState(StrEnum):
    """State of a member, counted in the pool's status."""

    READY = "ready"
    UPDATING = "updating"
    WAITING = "waiting"
    BLOCKED = "blocked"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ApplyNode:
    """One server-side apply: labels, records and cordon together, all that we own on the node.

    What is left out and was ours before is removed by the API server.
    """

    node: str
    uid: str
    resource_version: str
    """Version that this was decided on: where the node has moved on, it is decided anew."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    cordon: bool
    message: str
    """The purpose of the write, for the log."""
    is_mode_unsaved: bool = False
    """The write records that the plugin's mode is unknown. Until it is stored the controller
    remembers that: what stands on the node by then need not show it any more."""
    lifts_cordon: bool = False
    """Whether the apply must set `unschedulable: false`: an apply without the field would not lift
    the cordon (`NodeSnapshot.has_lost_cordon`)."""


@dataclass(frozen=True, slots=True)
class RecheckPods:
    """Read the cordoned node's pods from the API server, twice, and label the node or abort."""

    node: str
    stays: bool = False
    """Whether the node stays cordoned if pods are found; otherwise the change is aborted."""
    may_restart: bool = True
    """Whether a plugin that may have read a foreign label may be restarted."""


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod that is asked to go, and only while it has this UID."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class EvictPods:
    """Evict these pods from the cordoned node, each unless its disruption budget forbids it."""

    node: str
    pods: tuple[NamedPod, ...]


@dataclass(frozen=True, slots=True)
class RecordPlugins:
    """Read the plugin's pods now, and write on the node which of them will be deleted."""

    node: str


@dataclass(frozen=True, slots=True)
class DeletePlugins:
    """Delete these pods, and only while they have these UIDs."""

    node: str
    plugins: tuple[NamedPod, ...]


@dataclass(frozen=True, slots=True)
class ReleaseNode:
    """Give up what we own on the node; every label stays as it is, but those to be removed."""

    node: str
    uid: str
    remove: Mapping[str, str] = field(default_factory=dict)
    """Labels to take away in the same write, where they still are ours and have this value."""
    note: str = ""
    """Message about the node for a user, because nothing on the node will show it."""


class JobPhase(StrEnum):
    """Argument of a teardown's Job: the step that it does."""

    UNINSTALL = "uninstall"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Make the Job of one phase of the node's teardown, unless there is one of this name."""

    node: str
    name: str
    phase: JobPhase
    leaves_sentinel: bool = False
    """Whether the Job leaves the file that kured watches."""


Action = (
    ApplyNode | RecheckPods | EvictPods | RecordPlugins | DeletePlugins | ReleaseNode | CreateJob
)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a change that takes the node out of service, once the rollout admits it."""

    reason: Reason
    message: str
    action: Action
    uses_budget: bool = True


@dataclass(frozen=True, slots=True)
class StepResult:
    """The plan of one member: its state, the reason, and the next action, if any."""

    node: str
    state: NodeState
    reason: Reason
    message: str
    action: Action | None = None
    start: Start | None = None
    """Action that begins once the rollout admits it, by the pool's other nodes and by what a user
    approved. All other fields hold until then."""
    starts: bool = False
    """The action begins what was admitted."""
    uses_budget: bool = False
    """The action takes the node out of service, within the pool's budget."""
    initializes: bool = False
    """Whether the node joins the pool: its change takes no capacity away, and waits for approval
    only."""
    requeue_after_seconds: float | None = None
    """Seconds after which to decide again without an event."""
    labelled: bool = False
    """Every label that the pool wants is there, and ours unless it only observes."""
    conflicts: tuple[LabelConflict, ...] = ()
    """Other managers that keep writing those labels."""
    kind: ChangeKind | None = None
    """The isolation change that the node needs and that has not begun."""
    under_way: bool = False
    """Whether the node's isolation change has begun and is not over."""
    pods: int = 0
    """Pods on the node that hold that change up."""
    deadline: datetime | None = None
    """Time at which the change counts as failed."""
    halts: str = ""
    """The failure on this node because of which no other node of the pool may begin, in a sentence.
    """
    resumes: bool = False
    """Whether the halt ends automatically, because nothing failed that could be retried."""
    verified: bool = False
    """The pool's mode was reached by a change, and verified: what a canary is for."""

    @property
    def queued(self) -> bool:
        """Whether the start must be admitted; until then an action only writes records."""
        return self.start is not None

    def begin(self) -> "StepResult":
        """Return the result once its start is admitted; unchanged where it has none."""
        if self.start is None:
            return self
        return replace(
            self,
            state=NodeState.UPDATING,
            reason=self.start.reason,
            message=self.start.message,
            action=self.start.action,
            uses_budget=self.start.uses_budget,
            start=None,
            starts=True,
        )

    @property
    def warns(self) -> bool:
        return self.state is NodeState.READY and self.reason in READY_WITH_WARNING


def build_apply(
    node: Node,
    labels: Mapping[str, str],
    records: NodeRecords,
    *,
    cordon: bool,
    lifts_cordon: bool = False,
    message: str,
) -> ApplyNode:
    """Build an apply to `node` that leaves exactly this of ours on it.

    Whether its isolation is verified follows from the rest, so that one write says both.
    """
    key = names.LABEL_ISOLATION_VERIFIED
    ours = {k: v for k, v in labels.items() if k != key} | find_isolation_label(
        node, labels, records
    )
    return ApplyNode(
        node=node.name,
        uid=node.uid,
        resource_version=node.resource_version,
        labels=dict(sorted(ours.items())),
        annotations=records.annotations(),
        cordon=cordon,
        lifts_cordon=lifts_cordon,
        message=message,
        is_mode_unsaved=records.applied is not None and bool(records.applied.mode_unknown),
    )
