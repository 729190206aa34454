"""The planner with pools that want a number of the nodes that match."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import read_pod_info
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.api.pool import Pool
from gpushare.api.status import PoolStatus, Recommendation
from gpushare.core.planner.planner import Planner
from gpushare.core.sizing.accepted_move import find_accepted
from gpushare.core.sizing.moves import IdleNodeMove
from gpushare.core.sizing.waiting_pods import lacks_room
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.pool_status import build_status
from gpushare.names import ANNOTATION_APPLIED, LABEL_POOL, Condition, Reason
from tests.kit.values.manifests import build_pod
from tests.kit.values.node_plans import SHARE, applied, has_failed
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node, a_pool, a_snapshot


def sized(name: str, least: int = 0, most: int | None = None, **more: Any) -> Pool:
    """Build a pool of the nodes in the group `gpu` with a size."""
    size = {"min": least, **({} if most is None else {"max": most})}
    nodes = {"selector": {"match_labels": {"group": "gpu"}}, "size": size}
    return a_pool(name, nodes=nodes, **more)


class Planned:
    """A cluster, planned event by event."""

    def __init__(self, pools: Iterable[Pool], nodes: Iterable[Node], pods: Iterable[Pod] = ()):
        self.snapshot = a_snapshot(pools=tuple(pools), nodes=tuple(nodes), pods=tuple(pods))
        self.planner = Planner(Timing())
        self.planner.update(self.snapshot, None, NOW)

    def change(self, snapshot: ClusterSnapshot, *changed: str) -> None:
        self.snapshot = snapshot
        self.planner.update(snapshot, set(changed), NOW)

    def members(self, pool: str) -> list[str]:
        """Return the nodes that the pool has or gets."""
        members = self.planner.plans_by_pool[pool].members.items()
        return sorted(node for node, member in members if member.capacity is not None)

    def ready(self, pool: str) -> tuple[str, str]:
        """Return reason and message of the pool's condition Ready."""
        (found,) = (each for each in self.snapshot.pools if each.name == pool)
        status = build_status(found, self.planner.plans_by_pool[pool], NOW)
        ready = next(each for each in status.conditions if each.type == Condition.READY)
        return ready.reason, ready.message


def settled(pool: str, *names: str) -> list[Node]:
    labels = {**SHARE, LABEL_POOL: pool}
    return [a_node(name, labels, records=applied("share", pool=pool)) for name in names]


def test_a_pool_has_as_many_nodes_as_its_maximum_and_nothing_is_done_to_the_others() -> None:
    planned = Planned([sized("training", most=2)], [a_node(f"n{i}") for i in range(4)])
    assert planned.members("training") == ["n0", "n1"]
    assert planned.planner.plans_by_pool["training"].plans.keys() == {"n0", "n1"}


def test_a_pool_whose_maximum_falls_releases_nodes_without_pods() -> None:
    nodes = settled("training", "n0", "n1", "n2")
    planned = Planned([sized("training", most=1)], nodes, [a_gpu_pod(node="n2")])
    assert planned.members("training") == ["n2"]
    assert sorted(planned.planner.releases.nodes_of("training")) == ["n0", "n1"]


def test_a_node_that_leaves_the_cluster_is_replaced_for_a_minimum() -> None:
    nodes = [*settled("a", "n0", "n1"), *settled("b", "n2", "n3")]
    planned = Planned([sized("a", 2, 2), sized("b", 1)], nodes)
    left = {name: node for name, node in planned.snapshot.nodes.items() if name != "n0"}
    planned.change(replace(planned.snapshot, nodes=left), "n0")
    assert (planned.members("a"), planned.members("b")) == (["n1", "n2"], ["n3"])


def test_a_pod_that_comes_to_a_node_moves_nothing() -> None:
    planned = Planned([sized("a", 1), sized("b", 1)], [*settled("a", "n0"), *settled("b", "n1")])
    pods = {"n0": [a_gpu_pod(node="n0")]}
    planned.change(replace(planned.snapshot, pods=pods), "n0")
    assert (planned.members("a"), planned.members("b")) == (["n0"], ["n1"])


def test_a_pool_below_its_minimum_says_which_pools_have_the_nodes() -> None:
    planned = Planned([sized("a", 2), sized("b", 1)], settled("a", "n0", "n1"))
    reason, message = planned.ready("b")
    assert (reason, "keep them: a." in message) == (Reason.BELOW_MINIMUM, True)


def test_a_pool_that_only_observes_shows_what_it_would_get() -> None:
    observing = sized("preview", 1, 1, reconcile="Observe", priority=900)
    planned = Planned([sized("a", 1), observing], settled("a", "n0", "n1"))
    assert planned.members("a") == ["n0", "n1"]
    assert planned.members("preview") == ["n0"]


def test_a_failed_node_stays_although_the_maximum_falls() -> None:
    nodes = [has_failed("n0"), *settled("training", "n1")]
    planned = Planned([sized("training", most=1)], nodes)
    assert planned.members("training") == ["n0"]


@pytest.mark.parametrize("schedule", ["cgpu", "share"])
def test_a_node_moves_from_pool_to_pool_without_being_released(schedule: str) -> None:
    nodes = settled("a", "n0", "n1")
    planned = Planned([sized("a", 1), sized("b", 1, schedule=schedule)], nodes)
    assert (planned.members("a"), planned.members("b")) == (["n1"], ["n0"])
    assert planned.planner.releases.nodes_of("a") == []


def test_pools_without_a_size_share_nodes_with_one_that_has_one_by_priority() -> None:
    planned = Planned([a_pool("plain"), sized("a", 2, priority=200)], settled("plain", *"012345"))
    assert (len(planned.members("plain")), len(planned.members("a"))) == (0, 6)
    bounded = Planned([a_pool("plain"), sized("a", 2, 2, priority=200)], settled("plain", *"0123"))
    assert (len(bounded.members("plain")), len(bounded.members("a"))) == (2, 2)


ELASTIC = {"mode": "Automatic", "pending_for": "2m", "idle_for": "10m"}
MEMBER: dict[str, Any] = {"allocatable": {MEMORY: 15}, "capacity": {MEMORY: 15}, "gpu_count": 1}


def elastic(name: str, least: int = 0, most: int | None = None, **more: Any) -> Pool:
    return sized(name, least, most, **{"demand": ELASTIC, "schedule": "share", **more})


def a_waiting_pod(pool: str, gib: int = 8, **more: Any) -> Pod:
    """Build a pod that kube-scheduler has refused, since no node of the pool has room."""
    raw = build_pod("waiting", gib=gib, selects={LABEL_POOL: pool})
    values = {
        "phase": "Pending",
        "requests": {MEMORY: gib},
        "selects": frozenset({(LABEL_POOL, pool)}),
        "unschedulable": "0/3 nodes are available: 3 Insufficient aliyun.com/gpu-mem.",
        "lacks_gpu": True,
        "info": read_pod_info(parse_pod_shape(raw)),
        **more,
    }
    return Pod("default", "waiting", "uid-of-waiting", **values)


class Elastic(Planned):
    """Two elastic pools, with a busy node in `a` and two idle nodes in `b`."""

    def __init__(self, *pods: Pod, **more: Any) -> None:
        labels = {**SHARE, LABEL_POOL: "b"}
        idle = [
            a_node(n, labels, records=applied("share", pool="b"), **MEMBER) for n in ("n1", "n2")
        ]
        pools = [elastic("a", **more), elastic("b", 1)]
        super().__init__(pools, [*settled("a", "n0"), *idle], [a_gpu_pod(node="n0")])
        self.wait(0, *pods)

    def wait(self, minutes: float, *pods: Pod) -> None:
        """Let time pass, with these pods that wait; look at the end of it."""
        self.snapshot = replace(self.snapshot, waiting_pods=pods)
        now = NOW + timedelta(minutes=minutes)
        self.requeue_at = self.planner.update(self.snapshot, set(), now).requeue_at

    @property
    def move(self) -> IdleNodeMove | None:
        return self.planner.plans_by_pool["a"].move


def test_an_idle_node_moves_once_pods_have_waited_and_it_has_been_idle() -> None:
    pod = a_waiting_pod("a")
    planned = Elastic(pod)
    assert planned.move is None
    assert planned.requeue_at == NOW + timedelta(minutes=2)
    planned.wait(2, pod)
    assert (planned.move, planned.members("a")) == (None, ["n0"])
    planned.wait(10, pod)
    assert planned.move is not None
    assert (planned.move.node, planned.members("a"), planned.members("b")) == (
        "n1",
        ["n0", "n1"],
        ["n2"],
    )


@pytest.mark.parametrize(
    "pod",
    [
        a_waiting_pod("a", unschedulable="", lacks_gpu=None),
        a_waiting_pod("a", unschedulable="3 node(s) didn't match pod affinity", lacks_gpu=False),
        a_waiting_pod("a", unscheduled=("SchedulerError", "the extender does not answer")),
        a_waiting_pod("a", gates=("example.com/later",)),
        a_waiting_pod("a", deleting=True),
        a_waiting_pod("a", gib=16),
        a_waiting_pod("c"),
    ],
    ids=[
        "the scheduler is silent",
        "it lacks something else",
        "the scheduler failed",
        "it is gated",
        "it is being deleted",
        "no card is large enough",
        "it selects a pool that is not elastic",
    ],
)
def test_a_pod_moves_no_node_if(pod: Pod) -> None:
    planned = Elastic(pod)
    planned.wait(60, pod)
    assert (planned.move, planned.members("a")) == (None, ["n0"])


@pytest.mark.parametrize("has_nodes", [True, False])
def test_a_pod_of_which_the_scheduler_has_said_nothing_lacks_no_room(has_nodes: bool) -> None:
    silent = a_waiting_pod("a", unschedulable="", lacks_gpu=None)
    assert not lacks_room(silent, has_nodes=has_nodes)
    assert lacks_room(a_waiting_pod("a"), has_nodes=has_nodes)


def test_a_pod_of_a_pool_without_nodes_moves_one_whatever_the_scheduler_says() -> None:
    told = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    pod = a_waiting_pod("a", unschedulable=told, lacks_gpu=False)
    planned = Elastic(pod)
    left = {name: node for name, node in planned.snapshot.nodes.items() if name != "n0"}
    planned.change(replace(planned.snapshot, nodes=left), "n0")
    planned.wait(0, pod)
    planned.wait(30, pod)
    assert planned.members("a") == ["n1"]


@pytest.mark.parametrize(
    ("more", "waits_for"),
    [
        ({"rollout": {"freeze": {"reason": "an incident"}}}, "an incident"),
        ({"reconcile": "Paused"}, "Enforce"),
        ({"rollout": {"approval": "Manual"}}, "approval"),
        ({"demand": {"mode": "Recommend", "pending_for": "2m"}}, "accepts"),
    ],
    ids=["frozen", "paused", "approved by hand", "only recommended"],
)
def test_a_move_is_only_shown_while_the_pool_is(more: dict[str, Any], waits_for: str) -> None:
    pod = a_waiting_pod("a")
    planned = Elastic(pod, **more)
    planned.wait(30, pod)
    assert planned.move is not None
    assert waits_for in planned.move.waits_for
    assert planned.members("a") == ["n0"]
    (pool,) = (each for each in planned.snapshot.pools if each.name == "a")
    shown = build_status(pool, planned.planner.plans_by_pool["a"], NOW).recommendation
    assert shown is not None
    assert (shown.node, shown.source, shown.hash) == ("n1", "b", planned.move.hash)


def test_a_running_controller_makes_the_move_that_a_user_accepts() -> None:
    pod = a_waiting_pod("a")
    planned = Elastic(pod, demand={"mode": "Recommend", "pending_for": "2m"})
    planned.wait(30, pod)
    assert planned.move is not None
    plans = planned.planner.plans_by_pool
    pools = tuple(
        pool.model_copy(
            update={
                "status": build_status(pool, plans[pool.name], NOW),
                "accept_move": f"{planned.move.hash}@{NOW.isoformat()}" * (pool.name == "a"),
            }
        )
        for pool in planned.snapshot.pools
    )
    planned.snapshot = replace(planned.snapshot, pools=pools)
    planned.wait(31, pod)
    assert planned.members("a") == ["n0", "n1"]


def test_an_edit_of_a_pool_does_not_make_nodes_look_busy() -> None:
    pod = a_waiting_pod("a")
    planned = Elastic(pod)
    pools = tuple(pool.model_copy(update={"generation": 2}) for pool in planned.snapshot.pools)
    planned.snapshot = replace(planned.snapshot, pools=pools)
    planned.wait(10, pod)
    # The full pass of the edit knows no halts and windows yet.
    assert (planned.members("a"), planned.requeue_at) == (["n0"], NOW + timedelta(minutes=10))
    planned.wait(10, pod)
    assert planned.members("a") == ["n0", "n1"]


def test_a_node_whose_write_is_under_way_keeps_its_pool_and_no_second_one_moves() -> None:
    pod = a_waiting_pod("a")
    planned = Elastic(pod)
    planned.wait(10, pod)
    planned.snapshot = replace(planned.snapshot, busy=frozenset({"n1"}), waiting_pods=(pod,))
    planned.planner.update(planned.snapshot, {"n1"}, NOW + timedelta(minutes=11))
    assert (planned.move, planned.members("a"), planned.members("b")) == (
        None,
        ["n0", "n1"],
        ["n2"],
    )


def test_a_node_with_a_broken_record_counts_where_its_label_says() -> None:
    nodes = [*settled("a", "n0", "n1"), *settled("b", "n2")]
    broken = replace(nodes[0], annotations={ANNOTATION_APPLIED: "{"})
    planned = Planned([sized("a", 2, 2), sized("b", 0)], [broken, *nodes[1:]])
    assert (planned.members("a"), planned.members("b")) == (["n0", "n1"], ["n2"])


def test_nothing_is_due_once_no_pool_has_a_size_any_more() -> None:
    pod = a_waiting_pod("a")
    planned = Elastic(pod)
    assert planned.requeue_at is not None
    plain = tuple(a_pool(each.name, "share", generation=2) for each in planned.snapshot.pools)
    planned.snapshot = replace(planned.snapshot, pools=plain)
    planned.wait(60, pod)
    assert planned.requeue_at is None or planned.requeue_at > NOW + timedelta(minutes=60)


def test_a_window_that_opens_while_a_pod_waits_starts_what_waited_for_it() -> None:
    window = {"schedule": "0 4 * * *", "duration": "1h"}
    pod = a_waiting_pod("a", gib=16)
    pools = [elastic("a", schedule="cgpu", rollout={"windows": [window]}), elastic("b")]
    planned = Planned(pools, settled("a", "n0"))
    reasons = []
    for minutes in (0, 60):
        planned.snapshot = replace(planned.snapshot, waiting_pods=(pod,))
        planned.planner.update(planned.snapshot, set(), NOW + timedelta(minutes=minutes))
        reasons.append(planned.planner.plans_by_pool["a"].plans["n0"].reason)
    assert reasons == [Reason.WAITING_FOR_WINDOW, Reason.CORDONED]


def test_a_node_whose_card_becomes_unhealthy_moves_no_more() -> None:
    pod = a_waiting_pod("a")
    planned = Elastic(pod)
    planned.wait(9, pod)
    planned.snapshot = replace(planned.snapshot, unhealthy_cards={"n1": (0,)})
    planned.wait(10, pod)
    assert planned.members("a") == ["n0", "n2"]


def test_a_pod_that_binds_in_the_last_second_keeps_the_node() -> None:
    pod = a_waiting_pod("a")
    planned = Elastic(pod)
    planned.wait(9, pod)
    pods = {**planned.snapshot.pods, "n1": [a_gpu_pod("late", node="n1")]}
    planned.snapshot = replace(planned.snapshot, pods=pods)
    planned.planner.update(planned.snapshot, {"n1"}, NOW + timedelta(minutes=10))
    assert planned.members("a") == ["n0", "n2"]


def test_what_was_accepted_counts_for_the_recommendation_that_is_shown_only() -> None:
    shown = Recommendation(hash="abc", node="n", source="b", pods=1, since=NOW, message="")
    pool = elastic("a", status=PoolStatus(recommendation=shown))
    for text, found in (
        (f"abc@{NOW.isoformat()}", "abc"),
        (f"abc@{(NOW - timedelta(days=7)).isoformat()}", ""),
        (f"abc@{(NOW + timedelta(days=7)).isoformat()}", ""),
        (f"abd@{NOW.isoformat()}", ""),
        ("abc", ""),
        ("abc@yesterday", ""),
    ):
        assert find_accepted(pool.model_copy(update={"accept_move": text})) == found
