"""Explains one node: its pool, what its labels say, what its plugins serve, and what is wrong."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpushare import names
from gpushare.analysis.finding import Finding, Severity
from gpushare.analysis.inspect.pools import Card, view_cards
from gpushare.analysis.node_findings import judge_node
from gpushare.api.k8s.daemonset import NVIDIA_DAEMONSETS, UNKNOWN_PLUGIN
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, ModeName, Pool
from gpushare.core.ownership.claims import find_owner
from gpushare.core.planner.planner import Planner
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import NodePlan
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context
from gpushare.core.snapshot.isolation import NodeIsolation, observe_containers, observe_isolation
from gpushare.editions.edition import Mode
from gpushare.editions.installed_stacks import Stack, find_stacks
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.editions.plugins import SERVED, identify_plugin, is_plugin_of, may_offer
from gpushare.editions.registry import (
    INSTALLERS,
    MODES,
    find_edition,
    find_mode,
    find_schedule,
    settled_labels,
)
from gpushare.names import NOT_TAKEN, Reason

_VENDORS = (
    *("alibabacloud.com/nodepool-id", "aliyun.accelerator/", "ack.node.gpu."),
    *("nvidia.com/gpu.count", names.LABEL_REPLICAS, "nvidia.com/gpu.sharing-strategy"),
)
"""How labels begin that the vendor, or GPU feature discovery, writes on GPU nodes."""


@dataclass(frozen=True, slots=True)
class LabelLine:
    """A label that decides how the node's GPUs are allocated."""

    key: str
    value: str | None
    wanted: str | None
    """The value that its pool wants; None where no pool does."""
    owner: str
    """Field manager of a label that the operator uses; empty where none is known."""


@dataclass(frozen=True, slots=True)
class PluginLine:
    """A device plugin or another component that runs on the node."""

    name: str
    """Name of its DaemonSet, or of the static pod."""
    pod: str
    serves: tuple[str, ...]
    ready: bool
    ready_since: datetime | None
    restarts: int
    of_mode: bool
    """Whether the plugin belongs to the mode that the node's labels stand for."""


@dataclass(frozen=True, slots=True)
class ResourceLine:
    """A GPU resource."""

    name: str
    allocatable: int
    requested: int | None
    """Amount that the bound pods request; None where the pods are not known."""
    of_mode: bool


@dataclass(frozen=True, slots=True)
class Claimant:
    """A pool that claims the node, or has yet to release it."""

    pool: str
    priority: int | None
    """Priority of the pool; None where the pool is deleted."""
    has_it: bool
    plan: NodePlan


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """Everything that explains a node."""

    node: Node
    records: NodeRecords
    pool: str | None
    """The pool that has it; empty where that is deleted, None where no pool has it."""
    claimants: tuple[Claimant, ...] | None
    """Pools whose selectors match, the owner first, then by name; None without a plan."""
    edition: Edition | None
    """Edition of the node's pool, or else of its labels; None where neither has one."""
    labelled: ModeName
    """The mode that its labels stand for in that edition; empty where nothing says."""
    mode: Mode | None
    """The mode that the labels stand for; None where it is unknown."""
    stacks: Mapping[Stack, Sequence[str]]
    """Stacks that give out the node's cards, each with its evidence."""
    labels: tuple[LabelLine, ...]
    plugins: tuple[PluginLine, ...]
    resources: tuple[ResourceLine, ...]
    isolation: NodeIsolation | None
    """Isolation of the node's containers; None where the pods are not known."""
    unknown_pods: tuple[str, ...]
    """Pods with a container whose isolation is unknown."""
    findings: tuple[Finding, ...]
    cards: tuple[Card, ...]

    @property
    def plan(self) -> NodePlan | None:
        """The plan of the pool that has it."""
        return next((each.plan for each in self.claimants or () if each.has_it), None)

    @property
    def has_gpus(self) -> bool:
        """Whether the node has a label, resource or plugin of GPUs."""
        return bool(
            self.edition or self.resources or self.plugins or self.stacks or self.node.gpu_count
        )


def explain_node(
    snapshot: ClusterSnapshot,
    planner: Planner | None,
    name: str,
    now: datetime,
    *,
    has_pods: bool = True,
) -> NodeExplanation:
    """Explain the node `name` of `snapshot`, for which `planner` has planned.

    Without a planner `snapshot` lacks what a plan needs, and without `has_pods` what runs on the
    node: then only the node itself tells.
    """
    context = build_node_context(snapshot, name)
    node, pods, records = context.seen.node, context.seen.pods, context.seen.records
    claimants = _find_claimants(snapshot, planner, name) if planner is not None else None
    owner = next((each for each in claimants or () if each.has_it), None)
    has_it = owner.pool if owner is not None else None
    if planner is None:
        has_it = find_owner(node, records)
    pool = next((p for p in snapshot.pools if p.name == has_it), None)
    edition = pool.spec.edition if pool is not None else find_edition(node.labels)
    labelled = find_schedule(edition, node.labels) if edition is not None else ""
    mode = find_mode(edition, labelled) if edition is not None else None
    loaded = mode and records.find_loaded(snapshot.plugin_daemonsets.resolve(mode))
    ctx = planner.build_context(snapshot, now) if planner is not None else None
    found = judge_node(context, pool, owner.plan if owner is not None else None, ctx)
    return NodeExplanation(
        node=node,
        records=records,
        pool=has_it,
        claimants=claimants,
        edition=edition,
        labelled=labelled,
        mode=mode,
        stacks=find_stacks(node, pods, context.seen.resource_slices),
        labels=tuple(_list_labels(node, pool)),
        plugins=tuple(_list_plugins(pods, loaded, snapshot.plugin_daemonsets)),
        resources=tuple(_list_resources(node, pods if has_pods else None, loaded)),
        isolation=observe_isolation(context.seen) if has_pods else None,
        unknown_pods=tuple(
            dict.fromkeys(
                f"{each.pod.namespace}/{each.pod.name}"
                for each in observe_containers(context.seen)
                if each.isolated is None
            )
        ),
        findings=(*_tell_of_pools(snapshot, context.remembered_pools), *found),
        cards=view_cards(node, pods, context.seen.unhealthy_cards) if has_pods else (),
    )


def _find_claimants(snapshot: ClusterSnapshot, planner: Planner, name: str) -> tuple[Claimant, ...]:
    priorities = {pool.name: pool.spec.priority for pool in snapshot.pools}
    found = []
    for pool, pool_plans in planner.plans_by_pool.items():
        if (plan := pool_plans.plans.get(name)) is not None:
            has_it = plan.reason not in NOT_TAKEN
            found.append(Claimant(pool, priorities.get(pool), has_it, plan))
    return tuple(sorted(found, key=lambda each: (not each.has_it, each.pool)))


def _tell_of_pools(snapshot: ClusterSnapshot, remembered: frozenset[str]) -> Iterator[Finding]:
    for pool in sorted(remembered & snapshot.unreadable_pools):
        told = f"The spec of pool {pool} can't be read, so the node is not changed"
        yield Finding(Severity.ERROR, Reason.SPEC_INVALID, f"pool {pool}", told)


def _list_labels(node: Node, pool: Pool | None) -> Iterator[LabelLine]:
    wanted = settled_labels(pool.name, pool.spec) if pool is not None else {}
    ours = sorted((names.NODE_LABELS & node.labels.keys()) | wanted.keys())
    for key in ours:
        owner = names.FIELD_MANAGER if key in node.owned else node.managers.get(key, "")
        yield LabelLine(key, node.labels.get(key), wanted.get(key), owner)
    for key, value in sorted(node.labels.items()):
        if key.startswith(_VENDORS) and key not in ours:
            yield LabelLine(key, value, None, "")


def _list_plugins(
    pods: Sequence[Pod], mode: Mode | None, daemonsets: PluginDaemonSets
) -> Iterator[PluginLine]:
    components = frozenset(mode.components) if mode is not None else frozenset()
    every = INSTALLERS.union(NVIDIA_DAEMONSETS, *(each.components for each in MODES.values()))
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
        plugin = identify_plugin(pod)
        if not plugin and pod.daemonset not in every and pod.daemonset != UNKNOWN_PLUGIN:
            continue
        yield PluginLine(
            name=daemonsets.name_of(plugin or pod.daemonset),
            pod=f"{pod.namespace}/{pod.name}",
            serves=tuple(sorted(SERVED.get(plugin, ()))),
            ready=pod.ready and not pod.deleting,
            ready_since=pod.ready_since,
            restarts=pod.restarts,
            of_mode=pod.daemonset in components or (mode is not None and is_plugin_of(pod, mode)),
        )


def _list_resources(
    node: Node, pods: Sequence[Pod] | None, mode: Mode | None
) -> Iterator[ResourceLine]:
    expected = frozenset(mode.resources) if mode is not None else frozenset()
    may = may_offer(mode) if mode is not None else frozenset()
    for name in sorted(expected | {key for key, amount in node.allocatable.items() if amount}):
        requested = None
        if pods is not None:
            requested = sum(pod.requests.get(name, 0) for pod in pods if pod.is_live)
        yield ResourceLine(name, node.allocatable.get(name, 0), requested, name in expected | may)
