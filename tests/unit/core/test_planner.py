"""What is decided event by event is what would be decided from nothing."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool
from gpushare.api.status import Leaving, PoolStatus
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.blockers import Blocker
from gpushare.core.book import Book
from gpushare.core.observed import Observed, Timing
from gpushare.core.plan import Planner
from gpushare.core.records import parse_records
from gpushare.core.restraint import hold_back
from gpushare.core.world import Judged, World
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    OURS,
    SHARE,
    a_settled,
    an_isolating,
    applied,
    changing,
    deferred,
    plan_of,
)
from tests.kit.values.objects import MEMORY, NOW, PRO_INSTALLED, a_gpu_pod, a_node, a_pool
from tests.unit.core.planner_output import plan_world, read_books

POOLS = (
    a_pool(),
    a_pool("other", schedule="share", nodes={"names": ("gpu-1", "gpu-2")}, priority=200),
    a_pool("watcher", schedule="cgpu", reconcile="Observe", nodes={"names": ("gpu-0", "gpu-1")}),
    a_pool("gone", deleting=True, deletion_policy="WholeCard"),
    a_pool("still", schedule="share", reconcile="Paused", nodes={"names": ("gpu-3", "gpu-4")}),
)

LEFT = applied("share", pool="gone")
NODES = {
    "new": a_node(),
    "elsewhere": replace(a_node(), labels={}),
    "settled": a_settled(),
    "right": an_isolating(),
    "drifted": a_node(labels={**SHARE, names.LABEL_POOL: "x"}, records=applied()),
    "cordoned": a_settled(unschedulable=True),
    "down": a_settled(ready=False),
    "changing": changing(),
    "deferred": a_settled(records=deferred(0.4)),
    "left": a_node(
        labels={**SHARE, names.LABEL_POOL: "gone"}, records=applied("share", pool="gone")
    ),
    "full": an_isolating(allocatable={MEMORY: 30}, gpu_count=2),
    "mig": a_node(allocatable={"nvidia.com/mig-1g.5gb": 1}),
}
NAMES = tuple(f"gpu-{index}" for index in range(5))

_Event = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NAMES), st.sampled_from([None, *NODES])),
    st.tuples(st.just("pod"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("busy"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("refused"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("unreadable"), st.sampled_from(["training", "other"]), st.booleans()),
    st.tuples(st.just("pool"), st.sampled_from([pool.name for pool in POOLS]), st.booleans()),
)


class Cluster:
    """A small world in which things happen."""

    def __init__(self) -> None:
        self.pools: dict[str, Pool] = {}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[Pod, ...]] = {}
        self.busy: set[str] = set()
        self.refusals: dict[str, Blocker] = {}
        self.changed: set[str] = set()
        self.unreadable: set[str] = set()

    def happen(self, kind: str, name: str, what: object) -> None:
        if kind == "unreadable":
            (self.unreadable.add if what else self.unreadable.discard)(name)
            return
        if kind == "pool":
            pool = next(pool for pool in POOLS if pool.name == name)
            self.pools = {k: v for k, v in self.pools.items() if k != name}
            self.pools |= {name: pool} if what else {}
            return
        self.changed.add(name)
        if kind == "node":
            self.nodes.pop(name, None)
            if isinstance(what, str):
                self.nodes[name] = replace(NODES[what], name=name, uid=f"uid-of-{name}")
        elif kind == "pod":
            self.pods[name] = (a_gpu_pod(node=name),) if what else ()
        elif kind == "busy":
            (self.busy.add if what else self.busy.discard)(name)
        else:
            self.refusals.pop(name, None)
            self.refusals |= {name: Blocker(Reason.WRITE_REFUSED, "no")} if what else {}

    def world(self) -> World:
        return World(
            pools=tuple(p for p in self.pools.values() if p.name not in self.unreadable),
            unreadable_pools=frozenset(self.unreadable),
            nodes=dict(self.nodes),
            pods=dict(self.pods),
            plugin_daemonsets=PRO_INSTALLED,
            busy=frozenset(self.busy),
            refusals=dict(self.refusals),
        )

    def take_changed(self) -> set[str]:
        changed, self.changed = self.changed, set()
        return changed


def _sums(book: Book) -> tuple[object, ...]:
    """What is summed up must be the sum of what is there."""
    plans = book.plans.values()
    return (
        {state: sum(plan.state is state for plan in plans) for state in NodeState},
        {plan.node for plan in plans if plan.state is not NodeState.READY},
        {plan.node for plan in plans if not plan.labelled},
        {plan.node for plan in plans if plan.rivals},
    )


@settings(max_examples=300)
@given(st.lists(st.lists(_Event, min_size=1, max_size=4), min_size=1, max_size=12))
def test_event_by_event_the_books_hold_what_a_full_pass_finds(
    passes: list[list[tuple[str, str, object]]],
) -> None:
    cluster, planner = Cluster(), Planner(Timing())
    now: datetime = NOW
    for events in passes:
        for event in events:
            cluster.happen(*event)
        now += timedelta(seconds=70)
        planner.update(cluster.world(), cluster.take_changed(), now)
        fresh = plan_world(cluster.world(), now)
        assert _without_slots(read_books(planner)) == _without_slots(fresh.members)
        for name, book in planner.books.items():
            if name not in fresh.capacities:
                assert not book.plans
                continue
            counts, unready, unlabelled, contested = _sums(book)
            assert {state: book.counts[state] for state in NodeState} == counts
            assert (set(book.unready), set(book.unlabelled)) == (unready, unlabelled)
            assert set(book.contested) == contested
            assert book.capacities == fresh.capacities[name]
            started = [plan for plan in book.plans.values() if plan.takes_slot]
            assert len(started) <= 1


def _without_slots(books: Mapping[str, tuple[NodePlan, ...]]) -> dict[str, dict[str, NodePlan]]:
    """Plans by node, without the times in them.

    Who of those that may start goes first depends on who was first there.
    """
    kept = {}
    for name, plans in books.items():
        kept[name] = {
            plan.node: replace(plan, action=None, wake_after_seconds=None)
            for plan in plans
            if not plan.takes_slot and plan.reason is not Reason.WAITING_FOR_BUDGET
        }
    return {name: plans for name, plans in kept.items() if plans}


def test_a_slot_that_falls_free_goes_to_the_next_by_name() -> None:
    planner = Planner(Timing())
    nodes = {name: replace(NODES["settled"], name=name, uid=name) for name in ("a", "b", "c")}
    nodes["a"] = replace(nodes["a"], ready=False)
    nodes["c"] = replace(nodes["c"], ready=False)
    world = World(pools=(a_pool(),), nodes=nodes, plugin_daemonsets=PRO_INSTALLED)
    assert not any(d.plan.takes_slot for d in planner.update(world, None, NOW).decisions)
    back = {name: replace(node, ready=True) for name, node in nodes.items()}
    plan = planner.update(replace(world, nodes=back), {"a", "c"}, NOW)
    assert [d.plan.node for d in plan.decisions if d.plan.takes_slot] == ["a"]


def test_a_node_is_looked_at_again_when_its_time_has_come() -> None:
    planner = Planner(Timing())
    nodes = {"gpu-1": NODES["deferred"]}
    world = World(pools=(a_pool(),), nodes=nodes, plugin_daemonsets=PRO_INSTALLED)
    first = planner.update(world, None, NOW)
    assert first.wake_at == NOW + timedelta(seconds=24)
    later = planner.update(world, set(), NOW + timedelta(seconds=24))
    assert [decision.plan.reason for decision in later.decisions] == [Reason.CORDONED]


def test_a_deleted_pool_waits_ten_minutes_for_the_next_node_and_no_longer() -> None:
    since = NOW - Timing().leaving_patience
    stuck = PoolStatus(leaving=Leaving(nodes=1, since=since))
    pool = a_pool("gone", deleting=True, deletion_policy="WholeCard", status=stuck)
    world = World(pools=(pool,), nodes={"gpu-1": NODES["left"]}, plugin_daemonsets=PRO_INSTALLED)
    planner = Planner(Timing())
    assert planner.update(world, None, NOW - timedelta(seconds=1)).release == ()
    assert planner.update(world, set(), NOW).release == (pool,)
    assert planner.holdings.nodes_of("gone") == ["gpu-1"]


def test_an_observing_pool_takes_no_node_and_says_what_it_would_do() -> None:
    watcher = a_pool("watcher", schedule="cgpu", reconcile="Observe", priority=900)
    owner = a_pool(schedule="share")
    world = World(pools=(owner, watcher), nodes={"gpu-1": NODES["settled"]},
                  plugin_daemonsets=PRO_INSTALLED)  # fmt: skip
    plan = plan_world(world)
    (member,), (observed,) = plan.members["training"], plan.members["watcher"]
    assert member.state is not NodeState.WAITING
    assert observed.reason is Reason.WOULD_CHANGE
    assert "gpushare.io/pool=watcher" in observed.message
    assert observed.action is None


def test_a_paused_pool_begins_nothing_and_finishes_what_is_under_way() -> None:
    paused = a_pool(reconcile="Paused")
    nodes = {
        "a": replace(NODES["settled"], name="a"),
        "b": replace(NODES["changing"], name="b", unschedulable=False),
    }
    plan = plan_world(World(pools=(paused,), nodes=nodes, plugin_daemonsets=PRO_INSTALLED))
    assert plan.decided["a"].reason is Reason.PAUSED
    assert plan.decided["a"].action is None
    assert plan.decided["b"].action is not None


# What a pool that does not act says it would do.


def test_the_labels_that_would_come_and_those_that_would_go_are_named() -> None:
    labels = {**SHARE, **OURS, names.LABEL_PLACEMENT: "binpack"}
    node = a_node(labels=labels, records=applied("share"))
    pool = a_pool(schedule="cgpu", reconcile="Observe")
    plan: NodePlan = plan_of(node, pool)
    assert plan.action is not None

    held = hold_back(plan, Judged(Observed(node, (), parse_records(node)), is_busy=False), pool)

    assert (held.state, held.action) == (NodeState.WAITING, None)
    kind, _, listed = held.message.partition("; labels to be written: ")
    assert kind.endswith("share -> cgpu")
    written, _, removed = listed.partition("; to be removed: ")
    assert written == "ack.node.gpu.schedule=cgpu, gpushare.io/isolation-verified=true"
    assert removed == "ack.node.gpu.placement"
