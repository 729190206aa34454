"""Whatever pods, people and machines do, nodes move between elastic pools by the promises.

The cluster is simulated, with a scheduler that binds a pod where its pool has room. `make fuzz`
plays as many new histories as GPUSHARE_HISTORIES says.
"""

import os
from collections import Counter
from dataclasses import replace
from random import Random, randrange

import pytest

from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import read_pod_info
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.api.pool import Edition, Pool
from gpushare.api.windows import Freeze
from gpushare.core.planner.decisions import Plan
from gpushare.core.snapshot.cluster import ClusterSnapshot
from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories.field_ownership import observe_node
from tests.kit.histories.pool_oracle import read_owner
from tests.kit.histories.simulated_kubelets import elapse
from tests.kit.histories.simulated_operator import SimulatedOperator
from tests.kit.values.manifests import build_pod
from tests.kit.values.objects import MEMORY, a_pool

HISTORIES = int(os.environ.get("GPUSHARE_HISTORIES", "0"))
SEEDS = [randrange(2**32) for _ in range(HISTORIES)] or list(range(20))
POOLS = {"train": "cgpu", "serve": "share", "batch": "share"}
NODES = [f"n{number}" for number in range(6)]
LABEL = "gpushare.io/pool"
STEP_SECONDS, STEPS, QUIET_STEPS = 20.0, 120, 60
DEMAND = {"mode": "Automatic", "pending_for": "1m", "idle_for": "2m"}


def a_sized(name: str, least: int, most: int, generation: int = 1) -> Pool:
    selector = {"match_labels": {"group": "gpu"}}
    return a_pool(
        name,
        POOLS[name],
        edition="Basic",
        nodes={"selector": selector, "size": {"min": least, "max": most}},
        demand=DEMAND,
        rollout={"max_unavailable": 6},
        generation=generation,
    )


class ElasticHistory:
    """A cluster of three elastic pools with the same nodes."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        cluster = sim.Cluster(edition=Edition.BASIC)
        for name in POOLS:
            cluster = sim.put_pool(cluster, a_sized(name, *self._draw_size()))
        for name in NODES:
            labels = {"group": "gpu", "aliyun.accelerator/nvidia_mem": "15360MiB"}
            cluster = sim.add_node(cluster, name, labels)
        self.cluster = cluster
        self.operator = SimulatedOperator(max_joins=6)
        self.waiting: dict[str, Pod] = {}
        self.ends: dict[str, int] = {}
        self.step = self.pods = 0
        self.moves = Counter[str]()

    def _draw_size(self) -> tuple[int, int]:
        least = self.chance.choice((0, 1, 1))
        return least, self.chance.choice((3, 4, 6))

    def live(self, steps: int, *, is_quiet: bool = False) -> None:
        """Let time pass; quietly: the pods that are there stay, and no others come."""
        for _ in range(steps):
            self.step += 1
            if not is_quiet:
                self._disturb()
            self._schedule()
            self._pass()
            self.cluster = elapse(self.cluster, STEP_SECONDS)

    def owners(self) -> dict[str, str]:
        """Return the pool that has each node by its labels and records."""
        nodes = self.cluster.nodes.items()
        return {name: read_owner(observe_node(node)) or "" for name, node in nodes}

    def _disturb(self) -> None:
        chance = self.chance
        for uid in [uid for uid, end in self.ends.items() if end <= self.step]:
            del self.ends[uid]
            self.cluster = sim.end_pod(self.cluster, uid)
        # Now one team works, then another.
        busy = tuple(POOLS)[self.step // 30 % len(POOLS)]
        if chance.random() < 0.2:
            pool = busy if chance.random() < 0.9 else chance.choice(tuple(POOLS))
            self._create_pod(pool, chance.choice((4, 8, 15, 15, 16)))
        event = chance.random()
        if event < 0.04:
            self.operator = SimulatedOperator(max_joins=6)
        elif event < 0.07:
            freeze = None if self.cluster.freeze else Freeze(reason="an incident")
            self.cluster = replace(self.cluster, freeze=freeze)
        elif event < 0.10:
            node = chance.choice(NODES)
            is_ready = self.cluster.nodes[node].ready
            self.cluster = sim.set_ready(self.cluster, node, ready=not is_ready)
        elif event < 0.13:
            self.cluster = sim.restart_kubelet(self.cluster, chance.choice(NODES))
        elif event < 0.16:
            name = chance.choice(tuple(POOLS))
            old = self.cluster.pools[name]
            new = a_sized(name, *self._draw_size(), generation=old.generation + 1)
            new = new.model_copy(update={"status": old.status})
            self.cluster = sim.put_pool(self.cluster, new)

    def _create_pod(self, pool: str, gib: int) -> None:
        self.pods += 1
        name = f"p{self.pods}"
        raw = build_pod(name, gib=gib, selects={LABEL: pool})
        self.waiting[name] = Pod(
            "default",
            name,
            f"uid-{name}",
            requests={MEMORY: gib},
            card_memory=gib,
            selects=frozenset({(LABEL, pool)}),
            info=read_pod_info(parse_pod_shape(raw)),
        )

    def _schedule(self) -> None:
        """Bind each pod that fits somewhere; the scheduler refuses the others."""
        for name, pod in list(self.waiting.items()):
            node = next((node for node in NODES if self._has_room(node, pod)), None)
            if node is None:
                told = "0/6 nodes are available: Insufficient aliyun.com/gpu-mem."
                self.waiting[name] = replace(pod, unschedulable=told, lacks_gpu=True)
                continue
            del self.waiting[name]
            bound = replace(pod, node=node, unschedulable="", lacks_gpu=None, info=None)
            self.cluster = sim.bind_pod(self.cluster, bound)
            self.ends[pod.uid] = self.step + self.chance.randint(3, 15)

    def _has_room(self, name: str, pod: Pod) -> bool:
        node = observe_node(self.cluster.nodes[name])
        if not node.ready or node.unschedulable or node.labels.get(LABEL) != pod.pools[0]:
            return False
        held = sum(each.gpu_memory for each in self.cluster.pods_on(name))
        return node.allocatable.get(MEMORY, 0) - held >= pod.gpu_memory

    def _pass(self) -> None:
        before = self.owners()
        snapshot, changed = self.operator.observe(self.cluster)
        snapshot = replace(snapshot, waiting_pods=tuple(self.waiting.values()))
        plan = self.operator.decide(snapshot, changed, self.cluster)
        self._expect_fair(plan, snapshot, before)
        self.cluster = self.operator.write_statuses(self.cluster)
        for node in sorted(self.operator.busy):
            if self.chance.random() < 0.9:
                self.cluster = self.operator.carry_out(node, self.cluster)
        for node, pool in self.owners().items():
            self.moves[node] += pool != before[node] != ""

    def _expect_fair(self, plan: Plan, snapshot: ClusterSnapshot, owners: dict[str, str]) -> None:
        for decision in plan.decisions:
            node, owner = decision.plan.node, owners[decision.plan.node]
            if decision.plan.started is None or decision.pool == owner or not owner:
                continue
            held = [p.name for p in snapshot.pods.get(node, ()) if p.requests and p.is_live]
            assert held == [], f"{node} leaves {owner} for {decision.pool} under {held}"
            assert not snapshot.freeze, f"{node} moves in a freeze"
        for name, pool in self.cluster.pools.items():
            size, move = pool.spec.nodes.size, self.operator.planner.plans_by_pool[name].move
            members = self.operator.planner.plans_by_pool[name].members.values()
            count = sum(member.capacity is not None for member in members)
            assert size is not None
            stuck = sum(node.name in self._failed() for node in snapshot.nodes.values())
            assert count <= (size.max or 0) + stuck, f"{name} has {count} nodes"
            if move is not None:
                assert not [p for p in snapshot.pods.get(move.node, ()) if p.requests]

    def _failed(self) -> set[str]:
        states = self.operator.planner.plans_by_pool.values()
        return {plan.node for each in states for plan in each.plans.values() if plan.halt}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_sizes_hold_and_pods_that_could_run_end_up_running(seed: int) -> None:
    history = ElasticHistory(seed)
    history.live(STEPS)
    # All is mended, and what runs now stays: constant demand.
    history.cluster = replace(history.cluster, freeze=None)
    for node in NODES:
        history.cluster = sim.set_ready(history.cluster, node, ready=True)
    history.live(20, is_quiet=True)
    history.moves.clear()
    history.live(QUIET_STEPS, is_quiet=True)

    assert max(history.moves.values(), default=0) <= 1
    owners, plans = history.owners(), history.operator.planner.plans_by_pool
    count = Counter(owners.values())
    for name, pool in history.cluster.pools.items():
        size = pool.spec.nodes.size
        assert size is not None
        # Where only busy nodes are left, those that are to come still wait for their pods.
        members = plans[name].members.values()
        assert count[name] <= (size.max or 0)
        if plans[name].shortage is None:
            assert sum(member.capacity is not None for member in members) >= size.min
    pods = {name: [p for p in history.cluster.pods_on(name) if p.requests] for name in NODES}
    for pod in history.waiting.values():
        target = history.cluster.pools[pod.pools[0]]
        size = target.spec.nodes.size
        assert size is not None
        if pod.gpu_memory > 15 or count[target.name] >= (size.max or 0):
            continue
        for node in NODES:
            source = history.cluster.pools[owners[node]]
            least = source.spec.nodes.size.min if source.spec.nodes.size else 0
            waits = any(other.pools[0] == source.name for other in history.waiting.values())
            is_spare = not pods[node] and count[source.name] > least and not waits
            assert not is_spare or source is target, f"{pod.name} waits, and {node} is idle"
