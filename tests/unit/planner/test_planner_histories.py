"""Random worlds and histories: what must hold at every instant, and in the end.

People, machines and workloads do what they like, the operator's process ends at any write, and its
writes get lost. The cluster is a value, so that a history is quick and can be replayed.
"""

import os
from datetime import datetime

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories import simulated_kubelets
from tests.kit.histories.disturbances import (
    POOLS,
    SCHEDULES,
    Disturbances,
    a_node_name,
    a_pool_name,
    a_rollout,
)
from tests.kit.histories.simulated_operator import SimulatedOperator, describe, plan_from_nothing

EXAMPLES = int(os.environ.get("GPUSHARE_HISTORIES", "0"))
"""By `make fuzz`: so many new histories; else the same few every time."""
ENOUGH_STEPS = 200
"""Of the way to rest: passes, writes and waits."""


class Histories(Disturbances):
    """The same, with the operator in it, and with what is promised of it."""

    def __init__(self) -> None:
        super().__init__()
        self.operator = SimulatedOperator()

    @rule(seconds=st.sampled_from((1.0, 5.0, 15.0, 31.0, 130.0, 700.0)))
    def wait(self, seconds: float) -> None:
        self.cluster = simulated_kubelets.elapse(self.cluster, seconds)

    @rule(is_told=st.booleans())
    def decide(self, is_told: bool) -> None:
        """One pass; `is_told`: the pools' statuses reach the API server."""
        self._decide(is_told=is_told)

    @precondition(lambda self: self.operator.busy)
    @rule(data=st.data(), is_lost=st.booleans())
    def carry_out(self, data: st.DataObject, is_lost: bool) -> None:
        """One action that was decided, or it does not reach the API server."""
        node = data.draw(st.sampled_from(sorted(self.operator.busy)))
        if is_lost:
            self.operator.lose(node)
        else:
            self._carry_out(node)

    @rule(written=st.sets(a_node_name))
    def crash(self, written: set[str]) -> None:
        """The process ends; some of what was under way had reached the API server."""
        for node in sorted(written & self.operator.busy.keys()):
            self._carry_out(node)
        self.operator = SimulatedOperator()

    @rule(node=a_node_name)
    def restart_kubelet(self, node: str) -> None:
        """A node's kubelet restarts, and no process of the operator sees what was there then."""
        if node in self.cluster.nodes:
            self.cluster = sim.restart_kubelet(simulated_kubelets.elapse(self.cluster, 0), node)
            self.operator = SimulatedOperator()

    @invariant()
    def go_on(self) -> None:
        self.work(self.pace, 5, is_slow=False)

    @rule(rounds=st.integers(1, 8), seconds=st.sampled_from((1, 3, 12)), is_slow=st.booleans())
    def work(self, rounds: int, seconds: float, is_slow: bool) -> None:
        """The operator goes on undisturbed for a while; `is_slow`: a write takes a pass longer."""
        for _ in range(rounds):
            begun = sorted(self.operator.busy)
            self._decide()
            for node in begun if is_slow else sorted(self.operator.busy):
                self._carry_out(node)
            self.cluster = simulated_kubelets.elapse(self.cluster, seconds)

    @rule(
        name=a_pool_name,
        schedule=st.sampled_from(SCHEDULES),
        rollout=st.none() | a_rollout,
        node=a_node_name,
        fault=st.none() | st.sampled_from(sim.Fault),
        down=st.none() | a_node_name,
        rounds=st.integers(1, 8),
        is_slow=st.booleans(),
    )
    def roll_out(
        self,
        name: str,
        schedule: str,
        rollout: dict[str, object] | None,
        node: str,
        fault: sim.Fault | None,
        down: str | None,
        rounds: int,
        is_slow: bool,
    ) -> None:
        """A change of the mode gets some way; perhaps a node fails, or is down."""
        if fault is not None:
            self.set_fault(node, fault, is_present=True)
        if down is not None:
            self.set_ready(down, ready=False)
        changes = {"schedule": schedule, "rollout": rollout}
        self.put_pool(name, **{key: value for key, value in changes.items() if value is not None})
        self.work(rounds, 12, is_slow)

    def teardown(self) -> None:
        """Once nobody disturbs it any more, all comes to rest, and is as the pools say."""
        for _ in range(2):
            # What was late already may fail for the last time: people try again once more.
            self.mend()
            self.come_to_rest()
        self.checker.expect_rest(self.cluster, self.operator.planner)

    def come_to_rest(self) -> None:
        """Until nothing is left to do; meanwhile people agree to every plan."""
        for _ in range(ENOUGH_STEPS):
            told = self.cluster.pools
            requeue_at = self._decide()
            for name in POOLS:
                self.approve(name)
            if self.operator.busy or told != self.cluster.pools:
                self._carry_out_all()
                continue
            due = simulated_kubelets.next_due(self.cluster)
            # The controller looks again in any case; a pool that is being deleted waits for that.
            deleting = any(pool.deleting for pool in self.cluster.pools.values())
            later = self.cluster.now + self.operator.timing.release_patience if deleting else None
            moments = [moment for moment in (requeue_at, due, later) if moment is not None]
            if not moments:
                return
            seconds = (min(moments) - self.cluster.now).total_seconds()
            self.cluster = simulated_kubelets.elapse(self.cluster, max(seconds, 0))
        pool_states = self.operator.planner.pool_states
        plans = [describe(pool_state.plans).decode() for pool_state in pool_states.values()]
        raise AssertionError(f"no rest after {ENOUGH_STEPS} steps: {plans}")

    def _decide(self, *, is_told: bool = True) -> datetime | None:
        """One pass, which a process that starts now must agree with; when the next is due."""
        # DaemonSet controllers are quicker than we are.
        self.cluster = simulated_kubelets.elapse(self.cluster, 0)
        self.checker.expect_true_claims(self.cluster)
        snapshot, changed = self.operator.observe(self.cluster)
        before = set(self.operator.busy)
        plan = self.operator.decide(snapshot, changed, self.cluster)
        begun = {name: task for name, task in self.operator.busy.items() if name not in before}
        other, other_plan = plan_from_nothing(snapshot, self.cluster, self.operator.timing)
        self.checker.expect_agreement(self.operator.planner, other, snapshot, self.cluster)
        self.checker.expect_same_beginnings(begun, plan, other_plan)
        self.checker.expect_turns(begun, self.operator.busy, snapshot)
        self.cluster = self.operator.release(plan, self.cluster)
        if is_told:
            self.cluster = self.operator.tell(self.cluster)
        return plan.requeue_at

    def _carry_out(self, node: str) -> None:
        task, before = self.operator.busy[node], self.cluster
        self.cluster = self.operator.carry_out(node, before)
        self.checker.expect_fair_write(task, before, self.cluster)

    def _carry_out_all(self) -> None:
        for node in sorted(self.operator.busy):
            self._carry_out(node)


@pytest.mark.timeout(100 + EXAMPLES)
def test_whatever_happens_every_promise_holds_and_all_comes_to_rest() -> None:
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=EXAMPLES or 30,
            stateful_step_count=40,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
