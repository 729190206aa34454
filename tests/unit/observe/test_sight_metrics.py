"""What is told of pools, applications, nodes and cards, of clusters that are values."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpushare import names
from gpushare.api.k8s.pod import SharingContainer
from gpushare.api.k8s.pod_owner import Workload
from gpushare.api.pool import Schedule
from gpushare.core.capacity.pool_capacity import sum_capacity
from gpushare.core.records.drift_record import Drift, LabelConflict
from gpushare.core.sizing.moves import IdleNodeMove, WaitingPods
from gpushare.core.status.unschedulable_pods import REASONS, UnschedulablePod
from gpushare.names import Reason
from gpushare.observe.metrics import cards
from gpushare.observe.metrics.applications import ApplicationFigures
from gpushare.observe.metrics.pools import PoolCollector, Sight
from tests.kit.values.contested_pools import build_contested
from tests.kit.values.metrics import (
    a_holder,
    a_member,
    a_waiting,
    build_sight,
    list_families,
    measure,
    read,
    read_all,
)
from tests.kit.values.node_plans import OURS, SHARE, applied
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, a_pool

GIB = 2**30

SHARED = a_pool(schedule="share")
PODS = (a_holder("web-1", {0: 10}), a_holder("web-2", {0: 3, 1: 3}), a_plugin_pod())
WAITING = (a_waiting("web-3", 8),)
SIGHT = build_sight([SHARED], [a_member()], [*PODS, *WAITING])


def read_memory(sight: Sight, pool: str = "training") -> dict[str, float | None]:
    metrics = measure(sight)
    names = ("", "allocated_", "requested_", "largest_free_block_", "stranded_")
    return {name: read(metrics, f"pool_memory_{name}bytes", pool=pool) for name in names}


def test_a_pools_memory_is_told_in_bytes() -> None:
    assert read_memory(SIGHT) == {
        "": 30 * GIB,
        "allocated_": 16 * GIB,
        "requested_": 24 * GIB,
        "largest_free_block_": 12 * GIB,
        # The median pod asks for 8, and the first card has 2 left.
        "stranded_": 2 * GIB,
    }
    assert read(measure(SIGHT), "pool_gpus", pool="training") == 2


ZOO = a_pool("zoo", "share", nodes={"names": ["odd", "even-1", "even-2"]}, priority=900)
MIXED = build_sight(
    [SHARED, ZOO],
    [a_member(), a_member("odd", gib=15_360), a_member("even-1"), a_member("even-2")],
    [*PODS, a_holder("odd-1", {0: 2_048}, node="odd"), a_holder("even", {0: 5}, node="even-1")],
)
"""The plugin of one node counts in MiB, by mistake."""


def test_a_node_that_counts_in_another_unit_is_understood_and_changes_no_other_bytes() -> None:
    assert read_memory(MIXED) == read_memory(build_sight([SHARED], [a_member()], PODS))
    assert read_application(MIXED) == [2, 16 * GIB, 16 * GIB]
    cards = read_all(measure(MIXED), "card_memory_bytes")
    assert set(cards.values()) == {15 * GIB}
    assert read_all(measure(MIXED), "card_memory_allocated_bytes")["zoo", "odd", "0"] == 2 * GIB
    assert read_memory(MIXED, "zoo")[""] == 90 * GIB
    assert read_memory(MIXED, "zoo")["allocated_"] == 7 * GIB
    assert read_application(MIXED, pool="zoo") == [2, 7 * GIB, 7 * GIB]


@pytest.mark.parametrize("sight", [SIGHT, MIXED], ids=["alike", "mixed"])
def test_the_status_says_what_the_metrics_say(sight: Sight) -> None:
    for pool in sight.pools:
        waiting = [pod for pod in WAITING if sight is SIGHT and pool.name in pod.pools]
        status = sum_capacity(sight.plans_by_pool[pool.name].capacities.values(), waiting, NOW)
        assert read_memory(sight, pool.name) == {
            "": status.memory_total * GIB,
            "allocated_": status.memory_allocated * GIB,
            "requested_": status.memory_requested * GIB,
            "largest_free_block_": status.largest_free_block * GIB,
            "stranded_": status.stranded_memory * GIB,
        }


def test_a_node_without_memory_and_a_pod_without_node_count_as_their_pool_does() -> None:
    bare = a_member("bare", gib=0)
    pods = [a_holder("web-1", {0: 1_024}, node="bare"), a_waiting("web-2", 2_048)]
    sight = build_sight([SHARED], [a_member(gib=15_360), bare], pods)
    assert read_memory(sight)["requested_"] == 3 * GIB
    assert read_application(sight) == [1, GIB, 3 * GIB]


def test_a_pool_says_how_many_of_its_nodes_are_where() -> None:
    broken = a_node("gpu-2", {**SHARE, "cgpu": "true"}, allocatable={MEMORY: 15})
    metrics = measure(build_sight([SHARED], [a_member(), broken], PODS))
    assert read_all(metrics, "pool_nodes") == {
        ("training", "ready"): 1,
        ("training", "updating"): 0,
        ("training", "waiting"): 0,
        ("training", "blocked"): 1,
        ("training", "failed"): 0,
    }


def test_a_label_that_is_fought_over_shows_on_the_pool() -> None:
    placement = names.LABEL_PLACEMENT
    conflict = LabelConflict(
        key=placement, manager="kubectl", ours="binpack", theirs="spread", since=NOW
    )
    drift = Drift(claim="training/1", conflicts=(conflict,))
    records = applied(Schedule.SHARE).model_copy(
        update={"initial_values": {placement: None}, "drift": drift}
    )
    node = a_member(records=records, managers={placement: "kubectl"})
    node = replace(node, labels={**node.labels, placement: "spread"})
    pool = a_pool(schedule="share", placement="binpack")
    metrics = measure(build_sight([pool], [node], PODS))
    assert read(metrics, "pool_conflicting_nodes", pool="training") == 1
    assert read(measure(SIGHT), "pool_conflicting_nodes", pool="training") == 0


def test_a_pool_whose_spec_is_contested_shows_as_one() -> None:
    sight = build_sight([build_contested("share", "cgpu")], [a_member()], PODS)
    assert read(measure(sight), "pool_contested", pool="training") == 1
    assert read(measure(SIGHT), "pool_contested", pool="training") == 0


def test_a_move_that_waits_shows_on_the_pool_with_the_pool_that_the_node_would_leave() -> None:
    sight = build_sight([SHARED], [a_member()], PODS)
    pods = WaitingPods(b"", "team/pod", NOW)
    waits = IdleNodeMove("gpu-9", "spare", "training", pods, waits_for="a user accepts it")
    for move, found in ((waits, {("training", "spare"): 1}), (replace(waits, waits_for=""), {})):
        sight.plans_by_pool["training"].note_size(None, move)
        assert read_all(measure(sight), "pool_recommended_moves") == found


def test_a_node_whose_cards_two_stacks_give_out_shows_on_the_pool_and_offers_it_nothing() -> None:
    nvidia = a_plugin_pod("nvidia-1", daemonset="nvidia-device-plugin-daemonset")
    node = replace(a_member(), allocatable={MEMORY: 15, "nvidia.com/gpu": 1})
    sight = build_sight([SHARED], [node], [a_plugin_pod(), nvidia])
    assert read(measure(sight), "pool_competing_nodes", pool="training") == 1
    assert read(measure(SIGHT), "pool_competing_nodes", pool="training") == 0
    assert read_memory(sight)[""] == 0


def test_containers_are_told_by_the_isolation_that_they_really_have() -> None:
    main, free = SharingContainer("main"), SharingContainer("free", opts_out=True)
    before = a_holder("old", {0: 2}, containers=(main,))
    unknown = a_holder("unknown", {0: 2}, containers=(main,))
    after = a_holder("new", {0: 2}, containers=(main, free))
    records = applied(
        Schedule.CGPU, before=(before.uid, unknown.uid), admitted={before.uid: "share"}
    )
    labels = {names.LABEL_SCHEDULE: "cgpu", **OURS}
    node = a_node(labels=labels, records=records, allocatable={MEMORY: 15}, gpu_count=1)
    installer = a_plugin_pod("installer-1", daemonset="cgpu-installer")
    pods = [before, unknown, after, a_plugin_pod(), installer]
    metrics = measure(build_sight([a_pool()], [node], pods))
    assert read_all(metrics, "pool_containers") == {
        ("training", "isolated"): 1,
        ("training", "shared"): 2,
        ("training", "unknown"): 1,
    }
    assert read(metrics, "pool_stale_containers", pool="training") == 1
    assert read(metrics, "pool_opted_out_containers", pool="training") == 1


def test_a_pool_that_no_pass_has_looked_at_is_not_told_of() -> None:
    assert read_memory(replace(SIGHT, plans_by_pool={}))[""] is None


def test_a_process_that_stands_by_tells_of_no_pool() -> None:
    metrics = measure(Sight())
    for family in (*PoolCollector.families, *ApplicationFigures.families, *cards.FAMILIES):
        assert read_all(metrics, family.name) == {}


def an_unschedulable(
    pool: str = "training", reason: Reason = Reason.NO_FREE_BLOCK
) -> UnschedulablePod:
    return UnschedulablePod(a_waiting("web-1", 8), reason, "no room", pool)


def test_unschedulable_pods_are_counted_by_pool_and_reason_and_there_is_a_zero_for_the_rest() -> (
    None
):
    sight = replace(
        SIGHT, unschedulable=[an_unschedulable(), an_unschedulable(), an_unschedulable("")]
    )
    found = read_all(measure(sight), "unschedulable_pods")
    assert found.pop(("training", "NoFreeBlock")) == 2
    assert found.pop(("", "NoFreeBlock")) == 1
    assert found == {("", reason): 0 for reason in REASONS if reason is not Reason.NO_FREE_BLOCK}


def read_application(sight: Sight, **labels: str) -> list[float | None]:
    metrics = measure(sight)
    every = {"pool": "training", "namespace": "default", "kind": "Deployment", "workload": "web"}
    series = ("pods", "memory_allocated_bytes", "memory_requested_bytes")
    return [read(metrics, f"application_{name}", **{**every, **labels}) for name in series]


def test_an_application_is_told_for_each_pool_where_it_runs_and_apart_from_others() -> None:
    elsewhere = a_holder("web-4", {0: 5}, node="gpu-9")
    other = a_holder("alone", {1: 1}, workload=Workload("Pod", "alone"))
    outside = a_node("gpu-9", {"group": "other"})
    ended = a_holder("web-5", {1: 4}, phase="Succeeded")
    pods = [*PODS, *WAITING, elsewhere, other, ended]
    sight = build_sight([SHARED], [a_member(), outside], pods)
    assert read_application(sight) == [2, 16 * GIB, 24 * GIB]
    assert read_application(sight, pool="") == [1, 5 * GIB, 5 * GIB]
    assert read_application(sight, kind="Pod", workload="alone") == [1, GIB, GIB]


@pytest.mark.parametrize("pools", [("nowhere",), ("training", "other")], ids=["none", "several"])
def test_what_waits_for_no_pool_or_one_of_several_is_told_of_none(pools: tuple[str, ...]) -> None:
    # Anybody may think of as many names as they like.
    selects = frozenset((names.LABEL_POOL, pool) for pool in pools)
    pod = replace(a_waiting("web-1", 2), selects=selects)
    assert read_application(build_sight([SHARED], [], [pod]), pool="") == [0, 0, 2 * GIB]


@pytest.mark.parametrize(
    ("switched_off", "unseen"),
    [("per_application", {"namespace", "workload"}), ("per_node", {"node", "card"})],
)
def test_applications_nodes_and_cards_are_told_of_only_where_that_is_switched_on(
    switched_off: str, unseen: set[str]
) -> None:
    metrics = measure(build_sight([SHARED], [a_member()], PODS), **{switched_off: False})
    labels = {key for f in list_families(metrics) for s in f.samples for key in s.labels}
    assert unseen.isdisjoint(labels)


def test_each_card_says_what_it_has_and_what_of_it_is_given_out() -> None:
    metrics = measure(SIGHT)
    cards = {("training", "gpu-1", "0"): 15.0 * GIB, ("training", "gpu-1", "1"): 15.0 * GIB}
    assert read_all(metrics, "card_memory_bytes") == cards
    assert read_all(metrics, "card_memory_allocated_bytes") == {
        ("training", "gpu-1", "0"): 13 * GIB,
        ("training", "gpu-1", "1"): 3 * GIB,
    }


def test_cards_that_only_the_ledger_knows_are_one_series_without_memory() -> None:
    # Whoever may write a pod writes its entry.
    forged = a_holder("web-1", {0: 2, **dict.fromkeys(range(7, 400), 1)})
    metrics = measure(build_sight([SHARED], [a_member()], [forged]))
    labels = {"pool": "training", "node": "gpu-1", "card": "unknown"}
    assert read(metrics, "card_memory_bytes", **labels) == 0
    assert read(metrics, "card_memory_allocated_bytes", **labels) == 393 * GIB
    assert len(read_all(metrics, "card_memory_allocated_bytes")) == 3


def test_each_node_says_its_state_and_the_reason() -> None:
    assert read_all(measure(SIGHT), "node_info") == {("training", "gpu-1", "ready", "Applied"): 1}


def test_of_two_pools_a_node_is_told_of_in_the_one_that_acts() -> None:
    observing = a_pool("a-view", "share", reconcile="Observe", priority=900)
    metrics = measure(build_sight([observing, SHARED], [a_member()], PODS))
    assert {pool for pool, *_ in read_all(metrics, "node_info")} == {"training"}
    assert {pool for pool, *_ in read_all(metrics, "application_pods")} == {"training"}
    for series in ("memory_bytes", "memory_allocated_bytes", "gpus"):
        of_pools = {pool for (pool,), value in read_all(metrics, f"pool_{series}").items() if value}
        assert of_pools == {"training"}
    assert read(metrics, "pool_memory_bytes", pool="training") == 30 * GIB


def test_a_node_of_four_cards_is_as_many_series_as_the_page_says_of_five_thousand() -> None:
    page = (Path(__file__).parents[3] / "docs/metrics.md").read_text()
    said = "So 5,000 nodes in one pool are 20 series; with `metrics.perNode` they are 45,000 more"
    assert said in page
    assert "| each pool | 20," in page
    of_cluster, of_pool, of_application, of_node = 10, 20, 3, 45_000 // 5_000
    nodes = [a_member(f"gpu-{index}", cards=4) for index in range(5)]
    pods = [a_holder(f"web-{index}", {0: 4}, node=f"gpu-{index}") for index in range(5)]
    found, always = (
        sum(len(family.samples) for family in list_families(measure(sight)))
        for sight in (build_sight([SHARED], nodes, pods), Sight())
    )
    assert found - always == of_cluster + of_pool + of_application + 5 * of_node
