"""The cluster at one moment, as decisions use it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gpushare.api.k8s.job import Job
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.api.windows import Freeze
from gpushare.core.cause import Cause
from gpushare.core.ownership.claims import find_owner
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.records.record import RecordError
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.editions.plugin_daemonsets import PluginDaemonSets


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one moment, complete: no cache in it is still being filled."""

    pools: tuple[Pool, ...] = ()
    unreadable_pools: frozenset[str] = frozenset()
    """Names of pools whose spec we can't read: their nodes are left exactly as they are."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    pods: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    """Pods by node."""
    waiting_pods: Collection[Pod] = ()
    """Pods that request GPUs and have no node."""
    jobs: Mapping[str, Mapping[str, Job]] = field(default_factory=dict)
    """Jobs of teardowns, by node and name."""
    plugin_daemonsets: PluginDaemonSets = field(default_factory=PluginDaemonSets)
    busy: Collection[str] = frozenset()
    """Nodes to which something is being done just now."""
    starting: Mapping[str, bool] = field(default_factory=dict)
    """Nodes of `busy` whose change begins, each with whether it uses the budget already."""
    zeroed: Collection[str] = frozenset()
    """Nodes whose resource was seen at zero during their change."""
    refusals: Mapping[str, Cause] = field(default_factory=dict)
    """Refusal of our last write to each node, by node, for as long as it lasts."""
    mode_unsaved: Collection[str] = frozenset()
    """Nodes on which a write is not stored yet that says that their mode is unknown."""
    unhealthy_cards: Mapping[str, Collection[int]] = field(default_factory=dict)
    """Indexes of cards that the scheduler extender does not allocate, by node."""
    resource_slices: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Names of ResourceSlices by which NVIDIA's DRA driver offers cards, by node."""
    freeze: Freeze | None = None
    """Freeze of all pools."""
    unrecorded_pools: Collection[str] = frozenset()
    """Pools with a change of their spec that is not in their status yet: none begins anything."""
    assigned: Mapping[str, str] = field(default_factory=dict)
    """The pool of each node that a pool with a size claims, by node; empty where it is none."""
    assigned_observing: Mapping[str, str] = field(default_factory=dict)
    """The same if all pools acted that only observe."""
    acting_since: Mapping[str, datetime] = field(default_factory=dict)
    """Time since when the controller restores foreign changes of a pool's nodes, by pool that acts.
    """


@dataclass(frozen=True, slots=True)
class NodeContext:
    """A node as a pass of the planner sees it."""

    seen: NodeSnapshot
    is_busy: bool
    is_starting: bool = False
    """Whether the node's change is being started, within the budget."""
    is_join_starting: bool = False
    """The change by which it joins begins just now."""
    refusal: Cause | None = None
    assigned: str | None = None
    """The pool that the node is assigned to, empty where that is none; None where no pool with a
    size claims it."""
    assigned_observing: str | None = None
    """The same if all pools acted that only observe."""
    unreadable: str = ""
    """Why its records can't be read, so that the node is left alone; empty where they can."""

    @property
    def name(self) -> str:
        return self.seen.node.name

    @property
    def is_unavailable(self) -> bool:
        """Whether the node is out of service, by anybody; one that joins never was in service."""
        node, change = self.seen.node, self.seen.records.change
        under_way = change is not None and change.is_under_way
        if change is not None and under_way and change.initializing:
            return False
        return under_way or not node.ready or node.unschedulable or self.is_starting

    @property
    def is_in_change(self) -> bool:
        """Whether the operator took the node out of service, or is about to."""
        change = self.seen.records.change
        under_way = change is not None and change.is_under_way and not change.initializing
        return under_way or self.is_starting

    @property
    def is_only_cordoned(self) -> bool:
        """Whether the node's change can still be aborted without a trace."""
        change = self.seen.records.change
        return change is not None and change.is_only_cordoned

    @property
    def remembered_pools(self) -> frozenset[str]:
        """Pools that the node still carries something of."""
        records = self.seen.records
        pools = {record.pool for record in (records.change, records.applied) if record is not None}
        if owner := find_owner(self.seen.node, records):
            pools.add(owner)
        return frozenset(pools)


def build_node_context(snapshot: ClusterSnapshot, name: str) -> NodeContext:
    """Build the context of the node `name` from `snapshot`, with its records."""
    node, pods, unreadable = snapshot.nodes[name], snapshot.pods.get(name, ()), ""
    try:
        seen = NodeSnapshot(
            node,
            pods,
            parse_records(node),
            was_zero=name in snapshot.zeroed,
            jobs=snapshot.jobs.get(name, {}),
            is_refused=name in snapshot.refusals,
            is_mode_unsaved=name in snapshot.mode_unsaved,
            unhealthy_cards=snapshot.unhealthy_cards.get(name, ()),
            resource_slices=snapshot.resource_slices.get(name, ()),
        )
    except RecordError as error:
        seen = NodeSnapshot(node, pods, NodeRecords())
        unreadable = str(error)
    return NodeContext(
        seen,
        is_busy=name in snapshot.busy,
        is_starting=snapshot.starting.get(name, False),
        is_join_starting=snapshot.starting.get(name) is False,
        refusal=snapshot.refusals.get(name),
        assigned=snapshot.assigned.get(name),
        assigned_observing=snapshot.assigned_observing.get(name),
        unreadable=unreadable,
    )
