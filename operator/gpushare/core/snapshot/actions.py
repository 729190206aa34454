"""Actions on a node or a pool, as values that are carried out elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.cause import Cause
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
    action: Action | None
    """None in the verdict of a plan that is kept: it is planned again when it is admitted."""
    initializes: bool = False
    """Whether the node joins the pool: its change takes no capacity away, uses no budget, and waits
    for approval only."""


@dataclass(frozen=True, slots=True)
class PendingChange:
    """The isolation change that a node needs and that has not begun."""

    kind: ChangeKind
    pods: int = 0
    """Pods on the node that hold the change up."""


@dataclass(frozen=True, slots=True)
class Halt:
    """The failure on a node because of which no other node of its pool may begin."""

    message: str
    resumes: bool = False
    """Whether the halt ends automatically, because nothing failed that could be retried."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule decides about a node."""

    state: NodeState
    reason: Reason
    message: str
    action: Action | None = None
    """Done at once; beside a `start` it only writes records."""
    start: Start | None = None
    """Begun once the rollout admits it. All other fields hold until then."""
    requeue_after: timedelta | None = None
    """Time after which to decide again without an event."""
    pending: PendingChange | None = None
    halt: Halt | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What holds of a node beside the verdict: by its records and labels, and by the rule whether
    its deadline, conflicts and evictions count."""

    labelled: bool = False
    """Whether the node has every label that the pool wants, and the operator owns them unless the
    pool only observes."""
    conflicts: tuple[LabelConflict, ...] = ()
    """Other managers that keep writing those labels."""
    under_way: bool = False
    """Whether the node's isolation change has begun and is not over."""
    verified: bool = False
    """Whether a change reached the pool's mode, and it was verified: what a canary is for."""
    halt: Halt | None = None
    """The failure that the records have in the present attempt; a node that joins halts none."""
    deadline: datetime | None = None
    """Time at which the change counts as failed."""
    uses_budget: bool = False
    """Whether the node uses the budget for pods that are being evicted, which no record says."""
    requeue_after: timedelta | None = None
    """Time until one of these facts, or one on which rules depend, changes without an event."""


NO_FACTS = NodeFacts()
_KEEPS_REASON = (NodeState.BLOCKED, NodeState.FAILED)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The plan of one node for a pool: the verdict of the rule that applies, and the facts."""

    node: str
    verdict: Verdict
    facts: NodeFacts = NO_FACTS
    rule: str = ""
    """Phase and name of the rule, such as `Stable: start`; empty where no rule was asked."""
    refusal: Cause | None = None
    """Why the rollout does not admit the verdict's start yet."""
    started: Start | None = None
    """The start that the rollout has admitted, whose action the verdict has now."""

    @property
    def state(self) -> NodeState:
        return self.verdict.state

    @property
    def reason(self) -> Reason:
        if self.refusal is None or self.state in _KEEPS_REASON:
            return self.verdict.reason
        return self.refusal.reason

    @property
    def message(self) -> str:
        # The API server may refuse even what is to be recorded until the start.
        if self.refusal is None or self.state is NodeState.BLOCKED:
            return self.verdict.message
        failed = self.state is NodeState.FAILED
        return f"{self.verdict.message}. {self.refusal.message}" if failed else self.refusal.message

    @property
    def action(self) -> Action | None:
        return self.verdict.action

    @property
    def kind(self) -> ChangeKind | None:
        """The kind of the isolation change that the node needs and that has not begun."""
        return self.verdict.pending.kind if self.verdict.pending is not None else None

    @property
    def halt(self) -> Halt | None:
        """The failure that halts the pool: the recorded one, unless the verdict names one that a
        user must retry."""
        own = self.verdict.halt
        return own if own is not None and not own.resumes else self.facts.halt or own

    @property
    def uses_budget(self) -> bool:
        """Whether the node is out of service within the budget, although no record says so yet."""
        return self.facts.uses_budget or (self.started is not None and not self.started.initializes)

    @property
    def initializes(self) -> bool:
        """Whether the node begins to join the pool, or waits to."""
        start = self.verdict.start or self.started
        return start is not None and start.initializes

    @property
    def requeue_after(self) -> timedelta | None:
        """Time after which to decide again without an event."""
        waits = (self.verdict.requeue_after, self.facts.requeue_after)
        return min((wait for wait in waits if wait is not None), default=None)

    @property
    def warns(self) -> bool:
        return self.state is NodeState.READY and self.reason in READY_WITH_WARNING

    def begin(self) -> "NodePlan":
        """Return the plan once its start is admitted; unchanged where it has none."""
        if (start := self.verdict.start) is None:
            return self
        own = self.verdict
        verdict = Verdict(
            NodeState.UPDATING,
            start.reason,
            start.message,
            start.action,
            None,
            own.requeue_after,
            own.pending,
            own.halt,
        )
        return replace(self, verdict=verdict, refusal=None, started=start)

    def keep(self) -> "NodePlan":
        """Return the plan as it is kept: its start is planned again when it is admitted."""
        if (start := self.verdict.start) is None or start.action is None:
            return self
        return replace(self, verdict=replace(self.verdict, start=replace(start, action=None)))


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
