"""Random worlds and histories: what must hold at every instant, and in the end.

People, machines and workloads do what they like, the operator's process ends at any write, and its
writes get lost. The cluster is a value, so that a history is quick and can be replayed.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from gpushare import names
from gpushare.api.pool import Edition
from gpushare.core.snapshot.actions import NodeState
from gpushare.names import Reason
from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories import simulated_kubelets
from tests.kit.histories.disturbances import (
    NODES,
    POOLS,
    SCHEDULES,
    Disturbances,
    a_mode,
    a_node_name,
    a_pool_name,
    a_rollout,
)
from tests.kit.histories.simulated_operator import SimulatedOperator, describe, plan_from_nothing
from tests.kit.histories.turns import read_phase
from tests.unit.planner.rule_log import RuleLog, RuleOf, expect_to_lead

EXAMPLES = int(os.environ.get("GPUSHARE_HISTORIES", "0"))
"""By `make fuzz`: so many new histories; else the same few every time."""
ENOUGH_STEPS = 600
"""Of the way to rest: passes, writes and waits."""
ENOUGH_EDGES = 60
"""Of windows, which open and close for ever; in each, at least one node is changed."""
EDGES_OF_A_DAY = 220
"""At most so many do the windows of two pools have in a day."""
MANY = 400
"""Among so many histories each rule of a node's change is reached."""


def _inflict(history: "Histories", node: str, fault: sim.Fault) -> None:
    history.set_fault(node, fault, is_present=True)


def _relabel_in_reboot(history: "Histories", node: str) -> None:
    history.reboot(node)
    history.label_by_hand(node, "default", "autoscaler")


def _remove_records(history: "Histories", _node: str) -> None:
    """A policy removes the record of each change as soon as its node is cordoned."""
    for _ in range(8):
        for node in NODES:
            if read_phase(history.cluster, node) == "Cordoned":
                history.remove_record(node)
        history.work(1, 1, is_slow=False)


def _join_unready(history: "Histories", node: str, phase: str) -> None:
    """A new node is not Ready in this phase of its change."""
    history.remove_node(node)
    history.add_node(node, "a", "share")
    history.set_ready(history._work_until(phase, [node]), ready=False)


PHASES = (
    "Stable",
    "Cordoned",
    "Cordoned",
    "Labelled",
    "Uninstalled",
    "Rebooted",
    "Restarting",
    "Failed",
)
EVENTS: dict[str, Callable[["Histories", str], None]] = {
    "uncordoned": lambda history, node: history.uncordon(node),
    "not ready": lambda history, node: history.set_ready(node, ready=False),
    "ready": lambda history, node: history.set_ready(node, ready=True),
    "a late pod": lambda history, node: history.bind_pod(node, True, False, ""),
    "labelled": lambda history, node: history.label_by_hand(node, "default", "autoscaler"),
    "rebooted": lambda history, node: history.reboot(node),
    "labelled in its reboot": _relabel_in_reboot,
    "module removed": lambda history, node: history.remove_module(node),
    "start": lambda history, node: history.speak_of_teardown(node, names.TEARDOWN_START),
    "done": lambda history, node: history.speak_of_teardown(node, names.TEARDOWN_DONE),
    "mended": lambda history, node: history.lift_faults(node),
    "retried": lambda history, node: history.retry_node(node),
    "no event": lambda history, node: None,
    "cordoned by a user": lambda history, node: history.cordon(node, is_applied=False),
    "cordoned by GitOps": lambda history, node: history.cordon(node, is_applied=True),
    "containers restarted": lambda history, node: history.restart_containers(node),
    "maintenance": lambda history, node: history.begin_maintenance(node),
    "maintenance over": lambda history, node: history.end_maintenance(node, True, False),
    "maintenance over, label first": lambda history, node: history.end_maintenance(
        node, True, True
    ),
    "plugins deleted": lambda history, node: history.delete_plugins(node),
    "touched": lambda history, node: history.touch_node(node),
    "pool retried": lambda history, _: history.retry_pool("training"),
    "frozen for a while": lambda history, _: history.freeze_all(5),
    "another mode": lambda history, _: history.change_schedule("training", "default"),
    **{fault.name: partial(_inflict, fault=fault) for fault in sim.Fault},
}
"""What happens to a node, mostly in the midst of its change."""
_SERIES: dict[str, Callable[["Histories", str], None]] = {
    "records removed": _remove_records,
    "joins, not ready once labelled": partial(_join_unready, phase="Labelled"),
    "joins, not ready as its plugin restarts": partial(_join_unready, phase="Restarting"),
}
"""What happens, and goes on for a while."""
_ALL = {**EVENTS, **_SERIES}
_OFTEN = ("not ready", "labelled in its reboot", "maintenance", sim.Fault.MIG.name)
"""What only few phases have a rule for."""
_AIMED = (
    ("Cordoned", "uncordoned"),
    ("Cordoned", "frozen for a while"),
    ("Cordoned", sim.Fault.REFUSED.name),
    ("Labelled", sim.Fault.NEVER_READY.name),
    ("Uninstalled", "uncordoned"),
    ("Uninstalled", "not ready"),
    ("Uninstalled", "maintenance"),
    ("Rebooted", "not ready"),
    ("Rebooted", "maintenance"),
    ("Failed", "uncordoned"),
    *(("Stable", series) for series in _SERIES),
)
"""What only one phase has a rule for, each in its phase."""
a_seed = st.integers(0, 2**32 - 1)
"""Hypothesis repeats itself; what strikes nodes in the midst of their change is drawn evenly."""


class Histories(Disturbances):
    """The same, with the operator in it, and with what is promised of it."""

    log = RuleLog()
    """Of all histories."""

    def __init__(self) -> None:
        super().__init__()
        self.restart_operator()

    def restart_operator(self) -> None:
        may_evict, may_tear_down = self.cluster.may_evict, self.cluster.may_tear_down
        self.operator = SimulatedOperator(may_evict=may_evict, may_tear_down=may_tear_down)
        self._rules: dict[str, RuleOf | None] = {}
        """By node that something is being done to, the rule by which."""

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
        self.restart_operator()

    @rule(node=a_node_name)
    def restart_kubelet(self, node: str) -> None:
        """A node's kubelet restarts, and no process of the operator sees what was there then."""
        if node in self.cluster.nodes:
            self.cluster = sim.restart_kubelet(simulated_kubelets.elapse(self.cluster, 0), node)
            self.restart_operator()

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
        spec=st.fixed_dictionaries({}, optional={"rollout": a_rollout}),
        seed=a_seed,
    )
    def roll_out(self, name: str, spec: dict[str, object], seed: int) -> None:
        """A change of the mode gets some way; perhaps nodes are in use, or people agree to their
        teardowns."""
        chance = random.Random(seed)
        for node in chance.sample(NODES, chance.choice((0, 0, 1, 2))):
            self.bind_pod(node, is_late=False, is_strict=False, selects="")
        for node in NODES if chance.random() < 0.5 else ():
            self.speak_of_teardown(node, names.TEARDOWN_START)
        self.put_pool(name, schedule=chance.choice(SCHEDULES), **spec)
        self.interrupt(chance.randrange(2**32))

    @rule(seed=a_seed)
    def interrupt(self, seed: int) -> None:
        """Something happens to nodes just when their change is in a certain phase."""
        chance = random.Random(seed)
        is_slow = chance.random() < 0.3
        for _ in range(chance.choice((1, 2, 3))):
            nodes = chance.sample(NODES, len(NODES))
            phase, event = chance.choice(PHASES), chance.choice((*sorted(EVENTS), *_OFTEN * 3))
            if chance.random() < 0.3:
                phase, event = chance.choice(_AIMED)
            _ALL[event](self, self._work_until(phase, nodes))
            self.work(2, chance.choice((1, 12, 130, 700)), is_slow)

    def _work_until(self, phase: str, nodes: Sequence[str]) -> str:
        """Go on until one of `nodes` is in that phase; that one, or else one that is in a change,
        if any is."""
        for _ in range(8):
            phases = [read_phase(self.cluster, node) for node in nodes]
            if phase in phases:
                return nodes[phases.index(phase)]
            self.work(1, 3, is_slow=False)
        changing = (node for node in nodes if read_phase(self.cluster, node) != "Stable")
        return next(changing, nodes[0])

    @rule(
        name=a_pool_name,
        node=a_node_name,
        mode=st.none() | a_mode,
        conflicts=st.sampled_from(("Report", "Force")),
        times=st.integers(2, 8),
    )
    def fight_over(
        self, name: str, node: str, mode: str | None, conflicts: str, times: int
    ) -> None:
        """Somebody changes the label of its mode, or takes that of its pool, again and again."""
        self.put_pool(name, conflicts=conflicts)
        for _ in range(times):
            if mode is not None:
                self.label_by_hand(node, mode, "autoscaler")
            else:
                self.label_pool_by_hand(node, None)
            self.work(1, 1, False)

    @rule()
    def attend(self) -> None:
        """People do what nodes ask for in their teardown."""
        states = self.operator.planner.plans_by_pool.values()
        plans = [plan for state in states for plan in state.plans.values()]
        asked = {
            p.node: p.reason
            for p in plans
            if p.facts.under_way
            and (p.state is NodeState.BLOCKED or p.reason is Reason.MODULE_STILL_LOADED)
        }
        for node in sorted(asked.keys() & self.cluster.nodes.keys()):
            match asked[node]:
                case Reason.MODULE_REMOVAL | Reason.REBOOT_NEEDED:
                    self.remove_module(node)
                    self.reboot(node)
                case Reason.MODULE_UNVERIFIED | Reason.MODULE_STILL_LOADED if (
                    node in self.cluster.modules
                ):
                    self.remove_module(node)
                    self.reboot(node)
                case Reason.MODULE_UNVERIFIED:
                    told = self.cluster.nodes[node].annotations.get(names.ANNOTATION_TEARDOWN)
                    is_told = told == names.TEARDOWN_DONE
                    word = names.TEARDOWN_START if is_told else names.TEARDOWN_DONE
                    self.speak_of_teardown(node, word)

    def teardown(self) -> None:
        """Once nobody disturbs it any more, all comes to rest, and is as the pools say."""
        for _ in range(2):
            # What was late already may fail for the last time: people try again once more.
            self.mend()
            self.come_to_rest()
        self.checker.expect_rest(self.cluster, self.operator.planner)

    def come_to_rest(self) -> None:
        """Until nothing is left to do; meanwhile people agree to every plan."""
        edges: Counter[str] = Counter()
        for _ in range(ENOUGH_STEPS):
            told = self.cluster.pools
            requeue_at = self._decide()
            for name in POOLS:
                self.approve(name)
            before = self.cluster
            self.attend()
            if self.operator.busy or told != self.cluster.pools or before != self.cluster:
                for node in sorted(self.operator.busy):
                    self._carry_out(node)
                continue
            self.checker.expect_closed(self.cluster)
            due = simulated_kubelets.next_due(self.cluster)
            # The controller looks again in any case; a pool that is being deleted waits for that.
            states = self.operator.planner.plans_by_pool
            windows = {name: each.windows for name, each in states.items() if each.windows}
            deleting = any(pool.deleting for pool in self.cluster.pools.values())
            later = self.cluster.now + self.operator.timing.release_patience if deleting else None
            moments = [moment for moment in (requeue_at, due, later) if moment is not None]
            due = min(moments, default=None)
            edges.update(name for name, each in windows.items() if each.until == due)
            # The windows of one pool open often, and those of another that waits but once a day.
            waiting = {
                name for name, each in windows.items() if states[name].pending and each.until
            }
            is_long = all(edges[name] > 1 for name in waiting)
            if due is None or edges.total() > (ENOUGH_EDGES if is_long else EDGES_OF_A_DAY):
                return
            seconds = (due - self.cluster.now).total_seconds()
            self.cluster = simulated_kubelets.elapse(self.cluster, max(seconds, 0))
        plans_by_pool = self.operator.planner.plans_by_pool
        plans = [describe(pool_plans.plans).decode() for pool_plans in plans_by_pool.values()]
        raise AssertionError(f"no rest after {ENOUGH_STEPS} steps: {plans}")

    def _decide(self, *, is_told: bool = True) -> datetime | None:
        """One pass, which a process that starts now must agree with; when the next is due."""
        # DaemonSet controllers are quicker than we are.
        self.cluster = simulated_kubelets.elapse(self.cluster, 0)
        self.checker.expect_true_claims(self.cluster)
        snapshot, changed = self.operator.observe(self.cluster)
        before = set(self.operator.busy)
        self.log.begin_pass()
        plan = self.operator.decide(snapshot, changed, self.cluster)
        begun = {name: task for name, task in self.operator.busy.items() if name not in before}
        for name, task in begun.items():
            self._rules[name] = self.log.find_latest(task.decision.pool, name)
        other, other_plan = plan_from_nothing(snapshot, self.cluster, self.operator.timing)
        self.checker.expect_agreement(self.operator.planner, other, snapshot, self.cluster)
        self.checker.expect_same_beginnings(begun, plan, other_plan)
        blocked, busy = self.operator.blocked, self.operator.busy
        self.checker.expect_turns(begun, busy, snapshot, blocked, self.cluster.now)
        self.cluster = self.operator.release(plan, self.cluster)
        if is_told:
            self.cluster = self.operator.write_statuses(self.cluster)
        return plan.requeue_at

    def _carry_out(self, node: str) -> None:
        task, before = self.operator.busy[node], self.cluster
        self.cluster = self.operator.carry_out(node, before)
        self.checker.expect_fair_write(task, before, self.cluster)
        if (of := self._rules[node]) is not None and node in before.nodes:
            expect_to_lead(of, read_phase(before, node), read_phase(self.cluster, node))


@pytest.mark.timeout(1200 + 30 * EXAMPLES)
def test_whatever_happens_every_promise_holds_and_all_comes_to_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Histories.log.watch(monkeypatch)
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


def _draw_spec(chance: random.Random) -> dict[str, object]:
    rollout = {
        "max_unavailable": chance.choice((1, 2, "50%")),
        "ready_timeout_seconds": chance.choice((None, 30)),
        "on_failure": chance.choice(("Halt", "Rollback")),
        "workloads": chance.choice(("Wait", "CordonAndWait", "Evict")),
    }
    return {
        "rollout": rollout,
        "device_plugin": {"restart": chance.choice((*["OnIsolationChange"] * 4, "Never"))},
        "isolation_teardown": {"policy": chance.choice(("Manual", "Job"))},
    }


def play_rollouts(history: Histories, chance: random.Random) -> None:
    """Play eight rollouts that are interrupted, and the way to rest."""
    history.begin(
        edition=chance.choice((*[Edition.PROFESSIONAL] * 2, Edition.BASIC, Edition.NVIDIA)),
        returning_seconds=chance.choice((1, 5)),
        reporting_seconds=chance.choice((1, 9)),
        modes=[chance.choice(SCHEDULES) for _ in NODES],
        schedule=chance.choice(SCHEDULES),
        rollout={},
        is_settled=True,
        pace=0,
        working_seconds=chance.choice((5, 100)),
        may_evict=chance.random() < 0.7,
        may_tear_down=chance.random() < 0.7,
    )
    for _ in range(8):
        history.roll_out("training", _draw_spec(chance), chance.randrange(2**32))
        if chance.random() < 0.2:
            history.mend()
        if chance.random() < 0.1:
            conflicts = chance.choice(("Report", "Force"))
            mode = chance.choice((None, "default"))
            history.fight_over("training", chance.choice(NODES), mode, conflicts, times=8)
    history.teardown()


@pytest.mark.timeout(1200 + 30 * EXAMPLES)
def test_in_rollouts_that_are_interrupted_every_promise_holds_and_many_reach_every_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = random.randrange(2**32) if EXAMPLES else 7
    print(f"seed={seed}")
    chance = random.Random(seed)
    Histories.log.watch(monkeypatch)
    for _ in range(EXAMPLES or 2):
        play_rollouts(Histories(), chance)
    # Those of the other tests count, too: it must be the last (`-p no:randomly` in the Makefile).
    if EXAMPLES >= MANY:
        assert not Histories.log.list_unreached()
