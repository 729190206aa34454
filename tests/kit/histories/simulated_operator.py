"""Runs the controller without I/O on a simulated cluster. Between a decision and its write anything
may happen, also the end of the process."""

import json
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from gpushare.api.k8s.daemonset import DaemonSet
from gpushare.api.k8s.job import Job
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition
from gpushare.core.cause import Cause
from gpushare.core.nodechange.phases.cordoned import plan_after_recheck
from gpushare.core.nodechange.phases.labelled import plan_restart
from gpushare.core.nodechange.phases.teardown import is_job_due
from gpushare.core.planner.decisions import NodeDecision, Plan
from gpushare.core.planner.planner import Planner
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import (
    ApplyNode,
    CreateJob,
    DeletePlugins,
    EvictPods,
    NodePlan,
    NodeState,
    RecheckPods,
    RecordPlugins,
    ReleaseNode,
)
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import NodeSnapshot, Timing
from gpushare.core.status.pool_status import build_status
from gpushare.editions.plugin_config_map import read_entry
from gpushare.editions.plugin_configs import PluginConfigs
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.editions.registry import get_mode
from gpushare.names import Reason
from tests.kit.histories.field_ownership import CORDON, observe_node
from tests.kit.histories.simulated_cluster import (
    CONFIGS,
    DAEMONSETS,
    NVIDIA_PLUGIN,
    Cluster,
    Fault,
    SimulatedJob,
    apply_node,
    delete_pod,
    drop_pool,
    put_pool,
    release_node,
)
from tests.kit.values.objects import installed

MAX_JOINS = 3
"""Limit of nodes that join at once, small as histories have few nodes."""


@dataclass(frozen=True, slots=True)
class Task:
    """An action that was decided and not executed yet."""

    decision: NodeDecision
    version: tuple[str, int] | None
    """UID and generation of the action's pool at the decision."""


class SimulatedOperator:
    """A process of the controller, with its state in memory."""

    def __init__(
        self, *, may_evict: bool = True, may_tear_down: bool = True, max_joins: int = MAX_JOINS
    ) -> None:
        self.timing = Timing()
        self.planner = Planner(
            self.timing, may_evict=may_evict, may_tear_down=may_tear_down, max_joins=max_joins
        )
        self.busy: dict[str, Task] = {}
        """Actions under way by node."""
        self._nodes: Mapping[str, Node] = {}
        self._pods: Mapping[str, tuple[Pod, ...]] = {}
        self._jobs: Mapping[str, Mapping[str, Job]] = {}
        self._touched: set[str] = set()
        self._zeroed: set[str] = set()
        self._refusals: dict[str, Cause] = {}
        self._is_new = True
        self._acting_since: dict[str, datetime] = {}

    @property
    def blocked(self) -> Set[str]:
        """Nodes that are blocked by something else than their own steps."""
        plans = (state.plans.values() for state in self.planner.plans_by_pool.values())
        return {plan.node for each in plans for plan in each if plan.state is NodeState.BLOCKED}

    def observe(self, cluster: Cluster) -> tuple[ClusterSnapshot, set[str] | None]:
        """Build the snapshot of the caches, and the set of changed nodes."""
        acting = [pool.name for pool in cluster.pools.values() if pool.acts]
        self._acting_since = {n: self._acting_since.get(n, cluster.now) for n in acting}
        nodes = {name: observe_node(node) for name, node in cluster.nodes.items()}
        pods = {name: cluster.pods_on(name) for name in cluster.nodes}
        jobs: dict[str, dict[str, Job]] = {name: {} for name in cluster.nodes}
        for name, each in cluster.jobs.items():
            jobs[each.job.node][name] = each.job
        known = self._nodes.keys() & nodes.keys()
        changed = {n for n in known if self.planner.is_relevant(self._nodes[n], nodes[n])}
        changed |= nodes.keys() - known
        changed |= {name for name in nodes if pods[name] != self._pods.get(name)}
        changed |= {name for name in nodes if jobs[name] != self._jobs.get(name)}
        changed |= self._nodes.keys() - nodes.keys()
        for name in changed:
            if name in nodes and _shows_zero(nodes[name]):
                self._zeroed.add(name)
            elif name not in nodes or not _is_restarting(nodes[name]):
                self._zeroed.discard(name)
        changed |= self._touched
        self._nodes, self._pods, self._jobs, self._touched = nodes, pods, jobs, set()
        snapshot = ClusterSnapshot(
            pools=tuple(cluster.pools.values()),
            nodes=nodes,
            pods=pods,
            jobs=jobs,
            plugin_daemonsets=_find_daemonsets(cluster),
            busy=frozenset(self.busy),
            starting={
                name: task.decision.plan.uses_budget
                for name, task in self.busy.items()
                if task.decision.plan.started
            },
            zeroed=frozenset(self._zeroed),
            refusals=dict(self._refusals),
            acting_since=self._acting_since,
            freeze=cluster.freeze,
        )
        was_new, self._is_new = self._is_new, False
        return snapshot, None if was_new else changed

    def decide(self, snapshot: ClusterSnapshot, changed: set[str] | None, cluster: Cluster) -> Plan:
        """Run a pass, and begin its actions, which are executed or lost later."""
        plan = self.planner.update(snapshot, changed, cluster.now)
        ending = {pool.name for pool in plan.release}
        for decision in plan.decisions:
            node = decision.plan.node
            if decision.plan.action is None or node in self.busy or decision.pool in ending:
                continue
            self.busy[node] = Task(decision, _version_of(cluster, decision.pool))
        return plan

    def write_statuses(self, cluster: Cluster) -> Cluster:
        """Write each pool's status where it changed."""
        for name, pool in cluster.pools.items():
            pool_plans, held = self.planner.plans_by_pool[name], self.planner.releases.count(name)
            status = build_status(pool, pool_plans, cluster.now, held=held)
            if status != pool.status:
                cluster = put_pool(cluster, pool.model_copy(update={"status": status}))
        return cluster

    def release(self, plan: Plan, cluster: Cluster) -> Cluster:
        """Remove the finalizers of deleted pools without an action under way."""
        busy = {task.decision.pool for task in self.busy.values()}
        for pool in plan.release:
            if pool.name not in busy:
                cluster = drop_pool(cluster, pool.name)
        return cluster

    def carry_out(self, node: str, cluster: Cluster) -> Cluster:
        """Execute the action of `node`, which is not busy afterwards."""
        task = self.busy.pop(node)
        self._touched.add(node)
        if node not in cluster.nodes:
            self._refusals.pop(node, None)
            return cluster
        if cluster.suffers(node, Fault.REFUSED):
            self._refusals[node] = Cause(Reason.WRITE_REFUSED, "an admission policy says no")
            return cluster
        self._refusals.pop(node, None)
        match task.decision.plan.action:
            case ApplyNode() as action:
                return _apply(action, cluster)
            case RecheckPods() as look:
                return self._recheck_pods(node, task, cluster, look)
            case EvictPods(pods=pods):
                if cluster.suffers(node, Fault.PROTECTED):
                    self._refusals[node] = Cause(Reason.EVICTION_REFUSED, "one must be left")
                    return cluster
                for pod in pods:
                    cluster = delete_pod(cluster, pod.uid)
                return cluster
            case CreateJob() as create:
                return _make_job(create, cluster)
            case RecordPlugins():
                snapshot = _observe_anew(node, cluster, ChangePhase.LABELLED, ChangePhase.REBOOTED)
                restart = plan_restart(snapshot, cluster.now) if snapshot is not None else None
                return _apply(restart, cluster) if restart is not None else cluster
            case DeletePlugins(plugins=plugins):
                for plugin in plugins:
                    cluster = delete_pod(cluster, plugin.uid)
                return cluster
            case ReleaseNode() as action:
                if cluster.nodes[node].uid != action.uid:
                    return cluster
                return release_node(cluster, node, action.remove)
            case None:
                raise AssertionError(f"nothing was to be done to {node}")

    def lose(self, node: str) -> None:
        """Lose the write of `node`, which is decided again."""
        del self.busy[node]
        self._touched.add(node)

    def _recheck_pods(self, node: str, task: Task, cluster: Cluster, look: RecheckPods) -> Cluster:
        snapshot = _observe_anew(node, cluster, ChangePhase.CORDONED)
        if snapshot is None:
            return cluster
        action = plan_after_recheck(
            snapshot, cluster.now, self.timing, stays=look.stays, may_restart=look.may_restart
        )
        is_wanted = _version_of(cluster, task.decision.pool) == task.version
        return _apply(action, cluster) if is_wanted and action is not None else cluster


def _apply(action: ApplyNode, cluster: Cluster) -> Cluster:
    node = cluster.nodes[action.node]
    if (node.uid, str(node.version)) != (action.uid, action.resource_version):
        return cluster
    cordon = {CORDON: "true"} if action.cordon else {}
    return apply_node(cluster, action.node, {**action.labels, **action.annotations, **cordon})


def _make_job(create: CreateJob, cluster: Cluster) -> Cluster:
    snapshot = _observe_anew(create.node, cluster, ChangePhase.LABELLED, ChangePhase.REBOOTED)
    if snapshot is None or create.name in cluster.jobs or not is_job_due(snapshot, create):
        return cluster
    args = (create.phase, "sentinel") if create.leaves_sentinel else (create.phase,)
    job = Job("gpushare-teardown", create.name, f"uid-of-{create.name}", create.node, args=args)
    made = SimulatedJob(job, cluster.now + cluster.working)
    return replace(cluster, jobs={**cluster.jobs, create.name: made})


def _observe_anew(name: str, cluster: Cluster, *phases: ChangePhase) -> NodeSnapshot | None:
    """Build the node's current snapshot, if its change still is in one of `phases`."""
    node = observe_node(cluster.nodes[name])
    records = parse_records(node)
    if records.change is None or records.change.phase not in phases:
        return None
    return NodeSnapshot(node, cluster.pods_on(name), records)


def _version_of(cluster: Cluster, pool: str) -> tuple[str, int] | None:
    current = cluster.pools.get(pool)
    return (current.uid, current.generation) if current is not None else None


def _is_restarting(node: Node) -> bool:
    change = parse_records(node).change
    return change is not None and change.phase is ChangePhase.RESTARTING


def _find_daemonsets(cluster: Cluster) -> PluginDaemonSets:
    present = DAEMONSETS[cluster.edition].keys() - cluster.missing
    if cluster.edition is not Edition.NVIDIA:
        return installed(present)
    daemonsets = (
        DaemonSet(name, standard=name, config_map="configs" if name == NVIDIA_PLUGIN else "")
        for name in present
    )
    configs = {"configs": PluginConfigs("configs", CONFIGS, read_entry)}
    return PluginDaemonSets(
        nvidia=frozenset(daemonsets), nvidia_namespace="kube-system", configs=configs
    )


def _shows_zero(node: Node) -> bool:
    change = parse_records(node).change
    if change is None or change.phase is not ChangePhase.RESTARTING:
        return False
    resource = get_mode(change.edition, change.to).resource
    return bool(resource) and not node.allocatable.get(resource)


def plan_from_nothing(
    snapshot: ClusterSnapshot, cluster: Cluster, timing: Timing
) -> tuple[Planner, Plan]:
    """Plan with a new process that lists all objects in another order."""
    turned = replace(
        snapshot,
        pools=tuple(reversed(snapshot.pools)),
        nodes={name: snapshot.nodes[name] for name in sorted(snapshot.nodes, reverse=True)},
    )
    planner = Planner(
        timing,
        may_evict=cluster.may_evict,
        may_tear_down=cluster.may_tear_down,
        max_joins=MAX_JOINS,
    )
    return planner, planner.update(turned, None, cluster.now)


def describe(plans: Mapping[str, NodePlan]) -> bytes:
    """Dump plans as bytes, to compare those of two processes."""
    listed = {node: asdict(plan) for node, plan in plans.items()}
    return json.dumps(listed, default=str, sort_keys=True, indent=1).encode()
