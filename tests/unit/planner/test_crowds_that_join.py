"""A hundred nodes that join, played with simulated kubelets: how long that takes, and how many are
cordoned where none of them can succeed."""

from datetime import timedelta

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.names import Reason
from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories import simulated_kubelets
from tests.kit.histories.field_ownership import CORDON
from tests.kit.histories.machine import ONE_CARD, Machine
from tests.kit.histories.simulated_operator import SimulatedOperator
from tests.kit.values.objects import a_pool

NODES = 100
MOST = 16
NODE_SECONDS = 15
"""From a node's cordon to where it is in service again."""
_STEP_SECONDS = 1
CPU = Machine("CPU", cards=0, shows_cards=False, labels={})


class Crowd:
    """So many new nodes in one pool, and the operator beside them."""

    def __init__(self, machine: Machine, pool: Pool, *, is_lost: bool = False) -> None:
        """With `is_lost` a node is NotReady once it is labelled."""
        # The pods are read again after 2 s; the kubelet reports within another.
        returning = timedelta(seconds=NODE_SECONDS - 4)
        self._is_lost = is_lost
        self.cluster = sim.Cluster(returning=returning, reporting=timedelta(seconds=1))
        for number in range(NODES):
            self.cluster = sim.add_node(self.cluster, f"n{number:03}", {"group": "gpu"}, machine)
        self.cluster = sim.put_pool(self.cluster, pool)
        self.operator = SimulatedOperator(max_joins=MOST)
        self.began = self.cluster.now
        self.at_once, self.ever = 0, set[str]()

    def work(self, seconds: int) -> None:
        """The operator goes on for so long, or until all nodes are in service and labelled."""
        for _ in range(0, seconds, _STEP_SECONDS):
            self.cluster = simulated_kubelets.elapse(self.cluster, 0)
            snapshot, changed = self.operator.observe(self.cluster)
            self.operator.decide(snapshot, changed, self.cluster)
            for node in sorted(self.operator.busy):
                self.cluster = self.operator.carry_out(node, self.cluster)
                if self._is_lost and self.cluster.nodes[node].labels.get(names.LABEL_SCHEDULE):
                    self.cluster = sim.set_ready(self.cluster, node, ready=False)
            cordoned = {n for n, node in self.cluster.nodes.items() if CORDON in node.fields}
            self.at_once = max(self.at_once, len(cordoned))
            self.ever |= cordoned
            self.cluster = simulated_kubelets.elapse(self.cluster, _STEP_SECONDS)
            if self.joined == len(self.cluster.nodes):
                return

    @property
    def joined(self) -> int:
        return sum(names.ANNOTATION_APPLIED in n.fields for n in self.cluster.nodes.values())

    @property
    def took(self) -> timedelta:
        return self.cluster.now - self.began

    @property
    def reasons(self) -> set[Reason]:
        plans = self.operator.planner.plans_by_pool["training"].plans.values()
        return {plan.reason for plan in plans}


def assume_cards(ready_timeout_seconds: int) -> Pool:
    """A pool that says of each node that it has cards, so that all of them join."""
    nodes = {"selector": {"match_labels": {"group": "gpu"}}, "cards": "Assumed"}
    return a_pool(nodes=nodes, rollout={"ready_timeout_seconds": ready_timeout_seconds})


def test_a_hundred_nodes_join_in_less_than_two_minutes() -> None:
    crowd = Crowd(ONE_CARD, a_pool())
    crowd.work(180)
    assert (crowd.joined, crowd.at_once) == (NODES, MOST)
    assert crowd.took < timedelta(minutes=2)


def test_of_a_hundred_nodes_that_cannot_join_few_are_ever_cordoned() -> None:
    """As a selector that covers CPU nodes, of which the pool says that all have cards."""
    pool = assume_cards(ready_timeout_seconds=30)
    crowd = Crowd(CPU, pool)
    crowd.work(120)
    assert (crowd.joined, crowd.at_once, len(crowd.ever)) == (0, MOST, MOST)
    assert crowd.reasons == {Reason.DEADLINE_EXCEEDED, Reason.JOINS_HALTED}
    # A restart forgets nothing, and a retry exposes no other node.
    crowd.operator = SimulatedOperator(max_joins=MOST)
    retried = pool.model_copy(update={"retry": "again"})
    crowd.cluster = sim.put_pool(crowd.cluster, retried)
    crowd.work(120)
    assert (crowd.at_once, len(crowd.ever)) == (MOST, MOST)
    # Once nothing says any more that they have cards, all of them are in service.
    detected = pool.spec.nodes.model_copy(update={"cards": "Detected"})
    spec = pool.spec.model_copy(update={"nodes": detected})
    crowd.cluster = sim.put_pool(
        crowd.cluster, pool.model_copy(update={"spec": spec, "generation": 2})
    )
    crowd.work(10)
    assert not any(CORDON in node.fields for node in crowd.cluster.nodes.values())
    assert crowd.reasons == {Reason.NO_GPU_ON_NODE}


def test_of_a_hundred_nodes_that_are_lost_once_they_are_labelled_few_are_ever_cordoned() -> None:
    """As where an installer breaks the container runtime of each."""
    crowd = Crowd(CPU, assume_cards(ready_timeout_seconds=30), is_lost=True)
    crowd.work(120)
    assert (crowd.joined, crowd.at_once, len(crowd.ever)) == (0, MOST, MOST)
    assert crowd.reasons == {Reason.DEADLINE_EXCEEDED, Reason.JOINS_HALTED}
