"""Checks invariants of the operator's actions on a simulated cluster.

Records on nodes are parsed as the operator does. Expected values are independent: the pool of a
node and the budget are from `pool_oracle`, labels, plugins and resources from the simulation.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool
from gpushare.api.rollout import ApprovalPolicy, NewNodesPolicy
from gpushare.api.windows import Freeze
from gpushare.core.planner.decisions import Plan
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.records.change_record import Change, ChangePhase
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import (
    CreateJob,
    DeletePlugins,
    EvictPods,
    NodePlan,
    NodeState,
    ReleaseNode,
)
from gpushare.core.snapshot.admissions import find_admissions
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.core.status.pool_status import build_status
from gpushare.editions.edition import Outcome
from gpushare.names import Reason
from tests.kit.histories.field_ownership import CORDON, observe_node
from tests.kit.histories.maintenance import expect_left_alone, expect_maintained
from tests.kit.histories.pool_oracle import find_pool, is_within_budget, read_owner, shows_card
from tests.kit.histories.simulated_cluster import CONFIG, DAEMONSETS, SHOWN, Cluster, read_mode
from tests.kit.histories.simulated_operator import Task, describe
from tests.kit.histories.turns import (
    expect_equal,
    expect_join,
    expect_rate,
    expect_turn,
    find_leaving,
    find_members,
    is_out,
    read_beginning,
    read_change,
)
from tests.kit.values.window_oracle import is_frozen, is_open

PLUGINS = {name for each in DAEMONSETS.values() for name, ds in each.items() if ds.resource}
OURS = names.NODE_LABELS | names.NODE_ANNOTATIONS | {names.ANNOTATION_RETRY, CORDON}
UNATTENDED = (Outcome.REQUIRES_TEARDOWN, Outcome.REQUIRES_MANUAL_ACTION)
EXCUSES = frozenset(
    {Reason.REQUIRES_TEARDOWN, Reason.REQUIRES_MANUAL_ACTION, Reason.OWNED_BY_OTHER_POOL}
    | {Reason.WOULD_CHANGE, Reason.PAUSED, Reason.NO_GPU_ON_NODE}
)
"""Reasons of a node that may not be ready without an obstacle."""
BRIEF = timedelta(seconds=10)
"""Time after a change of a label within which it is restored also under pods."""
TURNS = frozenset({Reason.WAITING_FOR_BUDGET, Reason.WAITING_FOR_CANARY})


class InvariantChecker:
    """The observed history, as far as invariants depend on it."""

    def __init__(self) -> None:
        self._deleted: set[str] = set()
        """UIDs of plugin pods that the operator deleted."""
        self._restarts: Counter[tuple[str, datetime, str]] = Counter()
        """Numbers of restarts by change (the node's UID and the begin) and DaemonSet."""
        self._renewals: Counter[tuple[str, datetime]] = Counter()
        self._replaced: defaultdict[tuple[str, str, str], list[datetime]] = defaultdict(list)
        self._labelled: defaultdict[str, list[datetime]] = defaultdict(list)
        """Times of manual labelling by the node's UID."""
        self._unknown: set[str] = set()
        """UIDs of nodes whose plugin may have read any label."""
        self._misled: set[str] = set()
        """UIDs of nodes with a loaded kernel module that a user declared unloaded."""
        self._agreed: defaultdict[str, set[str]] = defaultdict(set)
        """Changes that a user approved, by the plan's hash."""
        self._started: defaultdict[str, set[str]] = defaultdict(set)
        """Changes that a user started, by the value of the annotation."""

    def note_labelling(self, name: str, cluster: Cluster) -> None:
        """Record that a user labels a node. A plugin that was never recorded may have started
        before or after that."""
        node = cluster.nodes[name]
        self._labelled[node.uid].append(cluster.now)
        applied = parse_records(observe_node(node)).applied
        running = {
            uid: each.pod.restarts
            for uid, each in cluster.pods.items()
            if each.pod.node == name and each.pod.daemonset in PLUGINS and not each.pod.deleting
        }
        if applied is None or applied.plugins != running:
            self._unknown.add(node.uid)

    def note_approval(self, pool: Pool) -> None:
        """Record that a user approves the plan in the pool's status."""
        if (plan := pool.status.plan) is not None:
            self._agreed[plan.hash] |= {step.change for step in plan.steps}

    def note_start(self, pool: Pool, value: str) -> None:
        """Record that a user starts the plan in the pool's status by writing `value`."""
        if (plan := pool.status.plan) is not None:
            self._started[value] |= {step.change for step in plan.steps}

    def note_word(self, name: str, cluster: Cluster) -> None:
        """Record that a user declares a node's kernel module unloaded, which may be wrong."""
        if name in cluster.modules:
            self._misled.add(cluster.nodes[name].uid)

    # Decisions.

    def expect_agreement(
        self, grown: Planner, fresh: Planner, snapshot: ClusterSnapshot, cluster: Cluster
    ) -> None:
        """Check that a running planner and a new one have equal plans and statuses."""
        for name, pool in cluster.pools.items():
            expect_equal(_as_bytes(grown.plans_by_pool[name]), _as_bytes(fresh.plans_by_pool[name]))
            expect_equal(
                _dump_status(pool, grown, cluster.now), _dump_status(pool, fresh, cluster.now)
            )

    def expect_same_beginnings(self, begun: Mapping[str, Task], plan: Plan, other: Plan) -> None:
        """Check that a running planner and a new one begin equal actions."""
        assert plan.release == other.release
        ending = {pool.name for pool in plan.release}
        wanted = {
            decision.plan.node: decision.plan
            for decision in other.decisions
            if decision.plan.action is not None and decision.pool not in ending
        }
        plans = {name: task.decision.plan for name, task in begun.items()}
        expect_equal(describe(plans), describe(wanted))

    def expect_turns(
        self,
        begun: Mapping[str, Task],
        busy: Mapping[str, Task],
        snapshot: ClusterSnapshot,
        blocked: Set[str],
        now: datetime,
    ) -> None:
        """Check that a node is changed for the pool that has it, within the pool's budget and
        windows, and in its turn."""
        for name, task in begun.items():
            node, action = snapshot.nodes[name], task.decision.plan.action
            expect_left_alone(node, action)
            pool = find_pool(node, snapshot.pools)
            is_member = pool is not None
            owner = pool.name if pool is not None else read_owner(node) or ""
            assert task.decision.pool == owner, f"{name} belongs to {owner!r}: {task.decision}"
            pool = pool or next((each for each in snapshot.pools if each.name == owner), None)
            before = parse_records(node).change
            change = read_beginning(action, before)
            if change is None or pool is None:
                continue
            if is_member:
                self._expect_approval(task, pool)
            self._expect_window(task, pool, change, snapshot.freeze, now)
            if before is not None and before.is_under_way:
                # One that is out of service for a change that failed takes nothing more.
                continue
            members, leaving = find_members(pool, snapshot), find_leaving(pool, snapshot)
            if change.initializing:
                if is_member:
                    expect_join(name, pool, members, busy, snapshot, blocked)
                continue
            out = {
                other
                for other in members | leaving
                if other != name and is_out(other, pool, busy, snapshot)
            }
            limit, nodes = pool.spec.rollout.max_unavailable, len(members or leaving)
            is_fair = is_within_budget(limit, len(out) + 1, nodes)
            assert is_fair, f"{name} begins, {sorted(out)} are out"
            if is_member:
                expect_turn(name, pool, members, busy, snapshot)

    def _expect_approval(self, task: Task, pool: Pool) -> None:
        rollout, kind = pool.spec.rollout, task.decision.plan.kind
        if rollout.approval is ApprovalPolicy.MANUAL:
            assert kind is not None
            agreed = self._agreed[rollout.approved_plan or ""]
            assert kind.change in agreed, f"{kind} begins, and nobody agreed to more than {agreed}"

    def _expect_window(
        self, task: Task, pool: Pool, change: Change, freeze: Freeze | None, now: datetime
    ) -> None:
        """Check that no change begins in a freeze, or outside the windows unless a user started
        it."""
        node, rollout, kind = task.decision.plan.node, pool.spec.rollout, task.decision.plan.kind
        assert not is_frozen(pool, freeze, now), f"{node} begins, and {pool.name} is frozen"
        is_new = change.initializing and rollout.new_nodes is NewNodesPolicy.ANYTIME
        is_started = kind is not None and kind.change in self._started[pool.start_now]
        if rollout.windows and not (is_new or is_started):
            assert is_open(rollout.windows, now), f"{node} begins outside the windows at {now}"

    # Writes.

    def expect_fair_write(self, task: Task, before: Cluster, after: Cluster) -> None:
        """Check that an action changed only its node, and only as allowed."""
        name, action = task.decision.plan.node, task.decision.plan.action
        for other in before.nodes.keys() - {name}:
            assert before.nodes[other] == after.nodes[other]
        if name not in before.nodes:
            return
        self._expect_fields(name, before, after)
        self._expect_drained(name, before, after)
        expect_maintained(before.nodes[name], after.nodes[name])
        self._note_renewal(name, before, after)
        if isinstance(action, ReleaseNode) and self._labelled[before.nodes[name].uid]:
            # What was known of the plugin goes with the records; its labels are believed then.
            self._unknown.add(before.nodes[name].uid)
        asked = [
            each.pod
            for uid, each in after.pods.items()
            if each.pod.deleting and not before.pods[uid].pod.deleting
        ]
        change = read_change(before, name)
        if after.jobs != before.jobs:
            assert isinstance(action, CreateJob), action
            assert CORDON in before.nodes[name].fields, f"a Job runs on {name} in service"
        for pod in asked:
            assert pod.node == name, pod
            assert change is not None, f"{pod.name} is deleted, and no change is under way"
            if isinstance(action, EvictPods):
                assert pod.requests, pod
                assert not pod.daemonset, pod
                assert CORDON in before.nodes[name].fields, f"evicted from {name} in service"
            else:
                assert isinstance(action, DeletePlugins), action
                self._expect_restart(name, pod, change, before)

    def _expect_drained(self, name: str, before: Cluster, after: Cluster) -> None:
        """Check that no pod holds a card when NVIDIA's label changes, since the plugin follows it
        at once, unless the label is only restored."""
        old, new = before.nodes[name].labels.get(CONFIG), after.nodes[name].labels.get(CONFIG)
        applied = parse_records(observe_node(before.nodes[name])).applied
        known = before.nodes[name].fields.get(CONFIG)
        drift = parse_records(observe_node(after.nodes[name])).drift
        # The write may have been on its way for long.
        decided = drift.writes[-1] if drift is not None and drift.writes else before.now
        is_brief = known is not None and known.at is not None and decided - known.at <= BRIEF
        is_back = applied is not None and applied.mode.config == new
        if old == new or (is_back and is_brief):
            return
        holders = [p.uid for p in before.pods_on(name) if p.phase == "Running" and p.requests]
        assert not holders, f"{name} goes from {old} to {new} under {holders}"

    def _expect_fields(self, name: str, before: Cluster, after: Cluster) -> None:
        old, new = before.nodes[name], after.nodes[name]
        changed = {
            key
            for key in old.fields.keys() | new.fields.keys()
            if old.fields.get(key) != new.fields.get(key)
        }
        assert changed <= OURS, f"{name}: {sorted(changed - OURS)} are not ours"
        if old.owners(CORDON) - {names.FIELD_MANAGER}:
            assert CORDON in new.fields, f"{name} is uncordoned, and others had cordoned it"

    def _expect_restart(self, name: str, pod: Pod, change: Change, before: Cluster) -> None:
        """Check the number of restarts: one per change, one for each manual labelling, and one for
        a resource that stays zero."""
        assert change.restart, change
        assert change.phase is ChangePhase.RESTARTING, change
        uid = pod.uid
        assert uid in {plugin.uid for plugin in change.plugins}, change
        assert uid not in self._deleted
        self._deleted.add(uid)
        node = before.nodes[name].uid
        self._restarts[node, change.since, pod.daemonset] += 1
        hands = sum(moment >= change.since for moment in self._labelled[node])
        most = 1 + hands + self._renewals[node, change.since]
        assert self._restarts[node, change.since, pod.daemonset] <= most, f"{name}: {change}"
        times = self._replaced[node, pod.daemonset, observe_node(before.nodes[name]).retry]
        expect_rate(name, times, before.now, self._labelled[node])

    def _note_renewal(self, name: str, before: Cluster, after: Cluster) -> None:
        old, new = read_change(before, name), read_change(after, name)
        if old is not None and new is not None and new.restarted_again and not old.restarted_again:
            self._renewals[after.nodes[name].uid, new.since] += 1

    # Claims.

    def expect_true_claims(self, cluster: Cluster) -> None:
        """Check that the known mode of a pod's admission is right. Modes isolate only GPU memory,
        which NVIDIA's plugin does not give out."""
        if cluster.edition is Edition.NVIDIA:
            return
        for simulated in cluster.nodes.values():
            node = observe_node(simulated)
            pods = cluster.pods_on(node.name)
            snapshot = NodeSnapshot(node, pods, parse_records(node))
            admissions = find_admissions(snapshot)
            for pod in pods:
                if pod.phase == "Running" and not pod.daemonset:
                    known, read = admissions.get(pod.uid), cluster.pods[pod.uid].read
                    assert known in (None, read), f"{pod.uid} on {node}: {known}, and met {read}"

    # The end.

    def expect_closed(self, cluster: Cluster) -> None:
        """Check that no node is cordoned for a change while all changes wait for a window."""
        for name in cluster.nodes:
            change = read_change(cluster, name)
            pool = cluster.pools.get(change.pool) if change is not None else None
            if change is None or pool is None or not change.is_only_cordoned:
                continue
            rollout = pool.spec.rollout
            is_held = bool(rollout.windows) and not is_open(rollout.windows, cluster.now)
            is_held &= f"{change.from_mode} -> {change.to}" not in self._started[pool.start_now]
            is_held |= is_frozen(pool, cluster.freeze, cluster.now)
            is_free = change.initializing or pool.deleting
            assert is_free or not is_held, f"{name} stays cordoned: {change}"

    def expect_rest(self, cluster: Cluster, planner: Planner) -> None:
        """Check that at rest each node is as its pool requires, or has a reason; nodes without a
        pool are released."""
        assert not [pool.name for pool in cluster.pools.values() if pool.deleting]
        for pool in cluster.pools.values():
            plans, started = planner.plans_by_pool[pool.name].plans, pool.status.started_now
            is_done = all(plan.state is NodeState.READY for plan in plans.values())
            assert not (is_done and started and started.kinds), f"{pool.name}: {started}"
            # A node that waits for a person out of service keeps its place in the budget.
            is_stuck = any(plan.facts.under_way and needs_user(plan) for plan in plans.values())
            excuses = EXCUSES | TURNS if is_stuck else EXCUSES
            for name, plan in plans.items():
                if plan.state is NodeState.READY:
                    self._expect_truth(name, pool, cluster)
                else:
                    # A pool that does not act says that before it says what it would do.
                    is_told = plan.reason is Reason.MODE_UNKNOWN and not pool.acts
                    assert plan.reason in excuses or is_told or needs_user(plan), plan
        for simulated in cluster.nodes.values():
            node = observe_node(simulated)
            self._expect_ownership(node, list(cluster.pools.values()), planner.plans_by_pool)

    def _expect_ownership(
        self, node: Node, pools: Sequence[Pool], plans_by_pool: Mapping[str, PoolPlans]
    ) -> None:
        """Check that the pool that has a node plans it, and that other claiming pools report it."""
        pool, owner = find_pool(node, pools), read_owner(node)
        if pool is not None:
            assert node.name in plans_by_pool[pool.name].plans, f"{node} is {pool.name}'s"
        else:
            holder = next((each for each in pools if each.name == owner), None)
            # What can't be given back stands in its pool's pool_plans, with a reason.
            is_kept = holder is not None and (
                not holder.acts or node.name in plans_by_pool[holder.name].plans
            )
            assert is_kept or not node.carries_ours, node
        for each in pools:
            winner = find_pool(node, pools, also=each)
            plan = plans_by_pool[each.name].plans.get(node.name)
            if plan is not None:
                is_its = shows_card(node, each) and (winner is None or winner is each)
                assert (plan.reason not in names.NOT_TAKEN) is is_its, plan

    def _expect_truth(self, name: str, pool: Pool, cluster: Cluster) -> None:
        """Check that a ready node is in service, offers its resource, and serves the mode."""
        node, nvidia = observe_node(cluster.nodes[name]), pool.spec.nvidia
        schedule = str(pool.spec.schedule) if nvidia is None else nvidia.config
        assert node.labels.get(names.LABEL_POOL) == pool.name, node
        assert read_mode(cluster.edition, node.labels) == schedule, node
        assert not node.owns_cordon, node
        if pool.spec.edition is Edition.PROFESSIONAL and schedule == "share":
            # Labels that somebody wrote by hand, and took back, may have left one behind.
            is_known = not self._labelled[node.uid] and node.uid not in self._misled
            assert not (is_known and name in cluster.modules), f"{name} isolates still"
        if nvidia is not None:
            replicas, strategy = SHOWN[schedule]
            assert cluster.nodes[name].offers_by_card == {names.RESOURCE_WHOLE_GPU: int(replicas)}
            assert node.labels[f"{names.RESOURCE_WHOLE_GPU}.sharing-strategy"] == strategy, node
        for daemonset, runs in DAEMONSETS[cluster.edition].items():
            if not runs.resource or node.labels.get(runs.key) not in runs.values:
                continue
            assert node.allocatable.get(runs.resource), f"{name} offers no {runs.resource}"
            for each in cluster.pods.values():
                if each.pod.node == name and each.pod.daemonset == daemonset:
                    known = node.uid not in self._unknown
                    assert each.read == schedule or not known, f"{name} serves {each.read}"


def needs_user(plan: NodePlan) -> bool:
    """Tell whether the node's next step needs a user."""
    return plan.kind is not None and plan.kind.outcome in UNATTENDED


def _dump_status(pool: Pool, planner: Planner, now: datetime) -> bytes:
    """Dump the status that a process writes."""
    held = planner.releases.count(pool.name)
    status = build_status(pool, planner.plans_by_pool[pool.name], now, held=held)
    return status.model_dump_json(indent=1).encode()


def _as_bytes(pool_plans: PoolPlans) -> bytes:
    """Dump a pool's state, without the times at which plans were made."""
    plans = pool_plans.plans.items()
    return describe({n: _without_times(plan) for n, plan in plans})


def _without_times(plan: NodePlan) -> NodePlan:
    verdict = replace(plan.verdict, action=None, requeue_after=None)
    facts = replace(plan.facts, requeue_after=None)
    return replace(plan, verdict=verdict, facts=facts, started=None)
