"""A node at one moment, as decisions use it, and the time limits of steps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from gpushare import names
from gpushare.api.k8s.job import Job
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.core.cause import Cause
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.plugin_reading import PluginReading
from gpushare.editions.maintenance import describe_maintenance
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class Timing:
    """Least and longest durations of the steps."""

    recheck: timedelta = timedelta(seconds=2)
    """Between the cordon and the labels."""
    backoff: timedelta = timedelta(seconds=30)
    ready_timeout: timedelta = timedelta(minutes=10)
    settle: timedelta = timedelta(seconds=12)
    release_patience: timedelta = timedelta(minutes=10)
    """A pool that is being deleted waits so long for the next of its nodes to finish."""
    zero_patience: timedelta = timedelta(minutes=1)
    """A plugin that is Ready without its resource is restarted once more after this."""
    restarts_per_hour: int = 6
    """The plugin of a node is replaced no more often."""
    contest_window: timedelta = timedelta(minutes=10)
    """A field of a pool that returns to an earlier value twice within this is contested for as
    long."""
    reread: timedelta = timedelta(seconds=10)
    """A foreign mode label that stood for longer may have been read: a kubelet that restarts has
    its plugins read their labels again, and nothing tells of it."""


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    """Values that hold for all decisions of one pass."""

    now: datetime
    timing: Timing = Timing()
    plugin_daemonsets: PluginDaemonSets = field(default_factory=PluginDaemonSets)
    may_evict: bool = False
    """The installation allows that pods are evicted."""
    may_tear_down: bool = False
    """The installation allows the Jobs of teardowns."""
    memory_unit: str = "GiB"
    """Unit in which the cluster's plugins count GPU memory."""
    is_halted: bool = False
    """Another change of the pool failed and waits for a user: one that has only cordoned its node
    is aborted."""
    closed: Cause | None = None
    """Too little time is left in the pool's window, or it is frozen or contested: a change that has
    only cordoned its node is aborted."""
    closed_until: datetime | None = None
    """Time at which `closed` is judged again without an event."""
    acting_since: datetime | None = None
    """Time since when the controller acts for the pool; the effects of earlier foreign writes are
    not known."""

    @property
    def daemonsets(self) -> Collection[str]:
        """Standard names of those in the device plugins' namespace."""
        return self.plugin_daemonsets.standard

    def name_of(self, daemonset: str) -> str:
        """Return the cluster's name of the DaemonSet with this standard name."""
        return self.plugin_daemonsets.name_of(daemonset)

    def saw(self, moment: datetime | None) -> bool:
        """Tell whether the controller acted already at a write's time; None is an unknown time."""
        since = self.acting_since
        return since is None or (moment is not None and moment > since)

    def is_brief(self, moment: datetime | None) -> bool:
        """Tell whether a write of that time, by the API server's clock, has been seen at once.

        A write without a known time (None) counts too, once the controller has watched for a while.
        """
        since = self.acting_since
        if since is not None and (moment or self.now - self.timing.reread) <= since:
            return False
        return moment is None or abs(self.now - moment) <= self.timing.reread


@dataclass(frozen=True)
class NodeSnapshot:
    """One node, its pods and its records, at one moment."""

    node: Node
    pods: Sequence[Pod]
    records: NodeRecords
    was_zero: bool = False
    """The resource was seen at zero since the plugin's pods were deleted."""
    jobs: Mapping[str, Job] = field(default_factory=dict)
    """The Jobs of its teardown, by name."""
    is_refused: bool = False
    """The API server refuses what we last tried on the node."""
    is_mode_unsaved: bool = False
    """A write that says so is not stored yet (`ApplyNode.is_mode_unsaved`)."""
    unhealthy_cards: Collection[int] = ()
    """Indexes of cards that the scheduler extender does not allocate."""
    resource_slices: Collection[str] = ()
    """Names of those by which NVIDIA's DRA driver gives out the node's cards."""

    @cached_property
    def reading(self) -> PluginReading | None:
        """The labels that the device plugin has read; None where no mode is recorded."""
        applied = self.records.applied
        return PluginReading(self.node, self.pods, applied) if applied is not None else None

    @property
    def is_out_of_service(self) -> bool:
        """Whether no new pod is bound to the node."""
        return self.node.unschedulable

    @property
    def has_lost_cordon(self) -> bool:
        """Whether the cordon is the change's own, but stays when our field manager lets go of it:
        managedFields were replaced, and name nobody who cordoned the node."""
        change, node = self.records.change, self.node
        is_own = change is not None and change.is_under_way and change.was_schedulable is not None
        is_lost = not node.owns_cordon or names.BEFORE_FIRST_APPLY in node.cordoned_by
        is_lost = is_lost and node.cordoned_by <= {names.BEFORE_FIRST_APPLY}
        return is_own and is_lost and node.unschedulable

    @cached_property
    def maintenance(self) -> Cause | None:
        """Work of another controller on the node, which cordons and uncordons it by itself."""
        told = describe_maintenance(self.node)
        return Cause(Reason.UNDER_MAINTENANCE, told) if told else None

    @property
    def is_ours_to_change(self) -> bool:
        """Whether no new pod is bound to the node, and no other controller is at work on it."""
        return self.is_out_of_service and self.maintenance is None
