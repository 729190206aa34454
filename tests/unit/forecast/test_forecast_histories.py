"""What was foretold, against what a simulated controller then does to a simulated cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from gpushare.analysis.forecast.pools import forecast_pools
from gpushare.analysis.forecast.steps import NodeForecast
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool
from gpushare.api.rollout import ApprovalPolicy
from gpushare.cli.cluster.snapshot import with_pools
from gpushare.core.snapshot.actions import ApplyNode, DeletePlugins, EvictPods
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.names import Reason
from gpushare.settings import Settings
from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories import simulated_kubelets
from tests.kit.histories.disturbances import LABELS, MODES, SCHEDULES, a_rollout
from tests.kit.histories.field_ownership import observe_node
from tests.kit.histories.simulated_operator import SimulatedOperator
from tests.kit.values.objects import a_pool
from tests.unit.planner.test_planner_histories import EXAMPLES, Histories

NODES = tuple(f"n{number}" for number in range(1, 6))
HARMLESS = ("", "WorkloadsPresent", "WaitingForApproval", "WaitingForWindow")
"""Reasons that go away here: pods end, people agree, and windows open."""
SETUP = Settings(allow_eviction=True)


class History(Histories):
    """A cluster with the operator at work, and what that did to nodes."""

    def __init__(self, edition: Edition, modes: Sequence[str]) -> None:
        super().__init__()
        self.cluster = sim.Cluster(edition=edition)
        for node, mode in zip(NODES, modes, strict=True):
            self.cluster = sim.add_node(self.cluster, node, {"group": "a", **LABELS[edition, mode]})
        self.cluster = simulated_kubelets.elapse(self.cluster, 60)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was done so far."""
        self.cordoned: list[str] = []
        """Nodes in the order in which their changes began."""
        self.begun_at: dict[str, datetime] = {}
        self.restarted: set[str] = set()
        self.evicted: set[str] = set()

    def put_pools(self, pools: Iterable[Pool]) -> None:
        """As an apply puts them there."""
        for pool in with_pools(self.observe(), pools).pools:
            self.cluster = sim.put_pool(self.cluster, pool)

    def observe(self) -> ClusterSnapshot:
        """The world as a command sees it, which knows nothing of what was before."""
        return SimulatedOperator().observe(self.cluster)[0]

    def read_labels(self) -> dict[str, dict[str, str]]:
        """Those that are not discovery's own."""
        return {
            name: {k: v for k, v in node.labels.items() if k not in sim.DISCOVERED}
            for name, node in self.cluster.nodes.items()
        }

    def _carry_out(self, node: str) -> None:
        before = observe_node(self.cluster.nodes[node])
        match self.operator.busy[node].decision.plan.action:
            case ApplyNode(cordon=True) if not before.owns_cordon:
                self.cordoned.append(node)
                self.begun_at.setdefault(node, self.cluster.now)
            case DeletePlugins():
                self.restarted.add(node)
            case EvictPods(pods=pods):
                self.evicted |= {str(pod) for pod in pods}
        super()._carry_out(node)


def a_spec(data: st.DataObject, edition: Edition, name: str, **spec: Any) -> Pool:
    members = {"names": data.draw(st.lists(st.sampled_from(NODES), unique=True, min_size=1))}
    rollout: dict[str, Any] = data.draw(a_rollout)
    rollout |= {"ready_timeout_seconds": None, "freeze": None}
    rollout["windows"] = [each for each in rollout["windows"] if each["duration"] != "1m"]
    schedule = data.draw(st.sampled_from(SCHEDULES))
    rollout["stale_workloads"] = data.draw(st.sampled_from(("Report", "Evict")))
    policy = data.draw(st.sampled_from(("Retain", "WholeCard", "Restore")))
    reconcile = data.draw(st.sampled_from((*["Enforce"] * 6, "Observe", "Paused")))
    spec = {"nodes": members, "deletion_policy": policy, "reconcile": reconcile, **spec}
    spec["rollout"] = rollout
    if edition is Edition.NVIDIA:
        spec |= {"nvidia": {"config": schedule}, "deletion_policy": "Retain"}
    if edition is Edition.PROFESSIONAL:
        spec["placement"] = data.draw(st.sampled_from((None, "binpack", "spread")))
    return a_pool(name, schedule, edition=str(edition), **spec)


def bind_workloads(history: History, nodes: Iterable[str]) -> None:
    """A pod that uses what each of these nodes offers, and runs."""
    for name in nodes:
        offered = history.cluster.nodes[name].allocatable
        if offered:
            pod = Pod("default", f"busy-{name}", f"busy-{name}", node=name)
            pod = replace(pod, requests={min(offered): 1})
            history.cluster = sim.bind_pod(history.cluster, pod)
    history.cluster = simulated_kubelets.elapse(history.cluster, 10)


@pytest.mark.timeout(1200 + 30 * EXAMPLES)
@settings(
    max_examples=EXAMPLES or 60,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
)
@given(
    data=st.data(),
    edition=st.sampled_from(sorted(sim.DAEMONSETS)),
    modes=st.lists(st.sampled_from(MODES), min_size=len(NODES), max_size=len(NODES)),
    is_settled=st.booleans(),
    busy=st.sets(st.sampled_from(NODES)),
    is_conflicting=st.booleans(),
)
def test_what_is_foretold_is_what_happens(
    data: st.DataObject,
    edition: Edition,
    modes: list[str],
    is_settled: bool,
    busy: set[str],
    is_conflicting: bool,
) -> None:
    history = History(edition, modes)
    if is_settled:
        history.put_pools([a_spec(data, edition, "training")])
        history.come_to_rest()
    bind_workloads(history, sorted(busy))
    pools = [a_spec(data, edition, "training")]
    if is_conflicting:
        pools.append(a_spec(data, edition, "inference", priority=200))
    snapshot = with_pools(history.observe(), pools)
    before = history.read_labels()
    asked = {pool.name for pool in pools}

    forecasts = forecast_pools(snapshot, asked, SETUP, history.cluster.now)
    history.begin_anew()
    history.put_pools(pools)
    history.come_to_rest()
    history.end_pods()
    history.come_to_rest()
    # Forecast and operator decide by the same code: whether that is right, the checker says.
    history.checker.expect_rest(history.cluster, history.operator.planner)

    # Of a node that one pool would have, and another one has, the latter tells more.
    ranked = sorted(forecasts, key=lambda each: each.pool.observes)
    listed = [step for each in reversed(ranked) for step in each.steps]
    steps = {s.node: s for s in listed if s.plan.reason is not Reason.OWNED_BY_OTHER_POOL}
    after = history.read_labels()
    for node in NODES:
        expect_as_told(steps.get(node), node, before[node], after[node], history)
    told = {pod for step in steps.values() for pod in step.evicted if is_done(step, history)}
    assert history.evicted == told
    # What leaves waits for no agreement, and a node whose pods end may wait for nobody any more.
    ruled = {each.pool.name: each.pool.spec.rollout for each in forecasts}
    agreed = {pool for pool, r in ruled.items() if r.approval is not ApprovalPolicy.MANUAL}
    begun = [steps[node] for node in history.cordoned]
    agreed_ones = [s for s in begun if s.wave is not None and s.pool in agreed]
    for exact in ([s for s in agreed_ones if s.node not in busy], list_exact(agreed_ones, steps)):
        waves = [s.wave for s in exact if s.wave is not None]
        assert waves == sorted(waves), history.cordoned
    for pool in agreed:
        expect_first_wave(pool, list_exact(agreed_ones, steps), steps, history)


def list_exact(
    begun: Iterable[NodeForecast], steps: Mapping[str, NodeForecast]
) -> list[NodeForecast]:
    """Those of pools in which no node's wave is only about right."""
    about = {s.pool for s in steps.values() if s.is_about or s.is_place_unknown}
    return [s for s in begun if s.pool not in about]


def expect_first_wave(
    pool: str,
    exact: Iterable[NodeForecast],
    steps: Mapping[str, NodeForecast],
    history: History,
) -> None:
    """Nodes in service that begin in the first wave do so at once, and no other one with them."""
    if any(s.plan.facts.under_way for s in steps.values()):
        return
    moments: dict[bool, set[datetime]] = {True: set(), False: set()}
    for step in exact:
        if step.pool == pool and not step.plan.initializes:
            event("exact, first wave" if step.wave == 1 else "exact, later wave")
            moments[step.wave == 1].add(history.begun_at[step.node])
    assert len(moments[True]) <= 1, history.begun_at
    assert all(first < later for first in moments[True] for later in moments[False]), moments


def is_done(step: NodeForecast, history: History) -> bool:
    """Whether it comes about here."""
    pool = history.cluster.pools[step.pool]
    return pool.acts and step.blocker in HARMLESS


def expect_as_told(
    step: NodeForecast | None,
    node: str,
    before: dict[str, str],
    after: dict[str, str],
    history: History,
) -> None:
    event("as it is" if step is None else step.blocker or str(step.plan.reason))
    restarted, cordoned = node in history.restarted, node in history.cordoned
    if step is None:
        assert (after, restarted, cordoned) == (before, False, False), node
    elif not is_done(step, history):
        assert (restarted, cordoned) == (False, False), step
    else:
        wanted = {k: v for k, v in {**before, **step.labels}.items() if k not in step.removed}
        assert after == wanted, step
        assert (restarted, cordoned) == (step.restarts_plugin, step.cordons), step


@pytest.mark.parametrize("most", [1, "50%"])
@pytest.mark.parametrize("canary", [0, 3])
@pytest.mark.parametrize("cordoned", [(), ("n1",), ("n4",)])
def test_nodes_that_take_equally_long_begin_in_the_waves_of_an_exact_forecast(
    most: int | str, canary: int, cordoned: tuple[str, ...]
) -> None:
    history = History(Edition.PROFESSIONAL, ["share"] * len(NODES))
    rollout = {"max_unavailable": most, "canary": canary}
    spec: dict[str, Any] = {"nodes": {"names": NODES}, "rollout": rollout}
    history.put_pools([a_pool("training", "share", **spec)])
    history.come_to_rest()
    for node in cordoned:
        history.cordon(node, is_applied=False)
    pool = a_pool("training", "cgpu", **spec)
    snapshot = with_pools(history.observe(), [pool])
    (found,) = forecast_pools(snapshot, {"training"}, SETUP, history.cluster.now)
    history.begin_anew()
    history.put_pools([pool])
    history.come_to_rest()
    moments = sorted({*history.begun_at.values()})
    assert not any(step.is_about for step in found.steps if step.wave)
    assert {s.node: s.wave for s in found.steps if s.wave} == {
        node: 1 + moments.index(moment) for node, moment in history.begun_at.items()
    }
