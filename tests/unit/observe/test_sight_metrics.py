"""What is told of pools, applications, nodes and cards: worked out when somebody reads it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod, SharingContainer
from gpushare.api.pool import Schedule
from gpushare.api.workload import Workload
from gpushare.core.records import Drift, Rival
from gpushare.observe.metrics import Metrics, Sight
from tests.kit.members import OURS, SHARE, applied
from tests.kit.sights import build_sight, measure, read, read_all
from tests.kit.values import MEMORY, NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool

GIB = 2**30
WEB = Workload("Deployment", "web")
SHARED = a_pool(schedule="share")


def a_member(name: str = "gpu-1", *, cards: int = 2, gib: int = 15, **more: Any) -> Node:
    """A ready member in mode share."""
    values: dict[str, Any] = {"records": applied(Schedule.SHARE), "gpu_count": cards, **more}
    return a_node(name, {**SHARE, **OURS}, allocatable={MEMORY: cards * gib}, **values)


def a_holder(name: str, cards: dict[int, int], *, node: str = "gpu-1", **more: Any) -> Pod:
    values: dict[str, Any] = {"workload": WEB, "cards": cards, **more}
    asks = values.pop("asks", sum(cards.values()))
    return a_gpu_pod(name, node=node, requests={MEMORY: asks}, **values)


def a_waiting(name: str, gib: int, pool: str = "training") -> Pod:
    selects = frozenset({(names.LABEL_POOL, pool)})
    return a_holder(name, {}, node="", asks=gib, selects=selects, phase="Pending")


PODS = (a_holder("web-1", {0: 10}), a_holder("web-2", {0: 3, 1: 3}), a_plugin_pod())
SIGHT = build_sight([SHARED], [a_member()], [*PODS, a_waiting("web-3", 8)])


def read_memory(sight: Sight, pool: str = "training") -> dict[str, float | None]:
    metrics = measure(sight)
    names = ("", "allocated_", "requested_", "largest_free_block_", "stranded_")
    return {name: read(metrics, f"pool_memory_{name}bytes", pool=pool) for name in names}


# Pools.


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


def test_plugins_that_count_in_mib_are_understood_to_the_mib() -> None:
    node = a_member(gib=15_360)
    sight = build_sight([SHARED], [node], [a_holder("web-1", {0: 1_500})])
    assert read_memory(sight)["allocated_"] == 1_500 * 2**20
    assert read(measure(sight), "pool_memory_bytes", pool="training") == 30 * GIB


def test_a_pool_says_how_many_of_its_nodes_are_where() -> None:
    broken = a_node("gpu-2", {**SHARE, "cgpu": "true"}, allocatable={MEMORY: 15})
    metrics = measure(build_sight([SHARED], [a_member(), broken], PODS))
    states = read_all(metrics, "pool_nodes")
    assert states == {
        ("training", "ready"): 1,
        ("training", "updating"): 0,
        ("training", "waiting"): 0,
        ("training", "blocked"): 1,
        ("training", "failed"): 0,
    }


def test_a_pool_says_its_mode() -> None:
    spread = a_pool("other", "share", placement="spread", nodes={"names": ["x"]})
    assert read_all(measure(build_sight([SHARED, spread], [])), "pool_info") == {
        ("other", "Professional", "share", "spread"): 1,
        ("training", "Professional", "share", ""): 1,
    }


def test_a_label_that_is_fought_over_shows_on_the_pool() -> None:
    placement = names.LABEL_PLACEMENT
    rival = Rival(key=placement, manager="kubectl", ours="binpack", theirs="spread", since=NOW)
    drift = Drift(claim="training/1", rivals=(rival,))
    records = applied(Schedule.SHARE).model_copy(
        update={"found": {placement: None}, "drift": drift}
    )
    node = a_member(records=records, managers={placement: "kubectl"})
    node = replace(node, labels={**node.labels, placement: "spread"})
    pool = a_pool(schedule="share", placement="binpack")
    metrics = measure(build_sight([pool], [node], PODS))
    assert read(metrics, "pool_conflicting_nodes", pool="training") == 1
    assert read(measure(SIGHT), "pool_conflicting_nodes", pool="training") == 0


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
    assert read(metrics, "stale_containers", pool="training") == 1
    assert read(metrics, "opted_out_containers", pool="training") == 1


def test_a_pool_that_is_gone_leaves_no_series() -> None:
    metrics = measure(SIGHT)
    assert read_memory(SIGHT)[""] is not None
    metrics.look = lambda: replace(SIGHT, pools=())
    assert read(metrics, "pool_memory_bytes", pool="training") is None


def test_a_pool_that_no_pass_has_looked_at_is_not_told_of() -> None:
    assert read_memory(replace(SIGHT, books={}))[""] is None


def test_a_process_that_stands_by_tells_of_no_pool() -> None:
    assert read_all(measure(Sight()), "pool_nodes") == {}


# Applications.


def read_application(sight: Sight, **labels: str) -> list[float | None]:
    metrics = measure(sight)
    every = {"pool": "training", "namespace": "default", "kind": "Deployment", "workload": "web"}
    series = ("pods", "memory_allocated_bytes", "memory_requested_bytes")
    return [read(metrics, f"application_{name}", **{**every, **labels}) for name in series]


def test_an_application_is_told_by_what_its_pods_hold_and_ask_for() -> None:
    assert read_application(SIGHT) == [2, 16 * GIB, 24 * GIB]


def test_pods_that_ended_are_no_part_of_it() -> None:
    ended = a_holder("web-4", {1: 4}, phase="Succeeded")
    sight = build_sight([SHARED], [a_member()], [*PODS, ended])
    assert read_application(sight) == [2, 16 * GIB, 16 * GIB]


def test_an_application_is_told_for_each_pool_where_it_runs_and_apart_from_others() -> None:
    elsewhere = a_holder("web-4", {0: 5}, node="gpu-9")
    other = a_holder("alone", {1: 1}, workload=Workload("Pod", "alone"))
    outside = a_node("gpu-9", {"group": "other"})
    sight = build_sight([SHARED], [a_member(), outside], [*PODS, elsewhere, other])
    assert read_application(sight) == [2, 16 * GIB, 16 * GIB]
    assert read_application(sight, pool="") == [1, 5 * GIB, 5 * GIB]
    assert read_application(sight, kind="Pod", workload="alone") == [1, GIB, GIB]


def test_what_waits_for_one_of_several_pools_is_told_of_none() -> None:
    selects = frozenset({(names.LABEL_POOL, "training"), (names.LABEL_POOL, "other")})
    pod = replace(a_waiting("web-1", 2), selects=selects)
    assert read_application(build_sight([SHARED], [], [pod]), pool="") == [0, 0, 2 * GIB]


def test_applications_are_not_told_of_where_that_is_switched_off() -> None:
    metrics = Metrics(per_application=False, per_node=True)
    metrics.look = lambda: SIGHT
    labels = {key for f in metrics.registry.collect() for s in f.samples for key in s.labels}
    assert {"namespace", "workload"}.isdisjoint(labels)


# Nodes and cards.


def test_each_card_says_what_it_has_and_what_of_it_is_given_out() -> None:
    metrics = measure(SIGHT)
    cards = {("training", "gpu-1", "0"): 15.0 * GIB, ("training", "gpu-1", "1"): 15.0 * GIB}
    assert read_all(metrics, "card_memory_bytes") == cards
    assert read_all(metrics, "card_memory_allocated_bytes") == {
        ("training", "gpu-1", "0"): 13 * GIB,
        ("training", "gpu-1", "1"): 3 * GIB,
    }


def test_a_card_that_only_the_ledger_knows_is_told_without_memory() -> None:
    sight = build_sight([SHARED], [a_member()], [a_holder("web-1", {7: 4})])
    labels = {"pool": "training", "node": "gpu-1", "card": "7"}
    assert read(measure(sight), "card_memory_bytes", **labels) == 0
    assert read(measure(sight), "card_memory_allocated_bytes", **labels) == 4 * GIB


def test_the_sums_of_cards_are_those_of_their_pool() -> None:
    metrics = measure(SIGHT)
    for series in ("memory_bytes", "memory_allocated_bytes"):
        of_cards = read_all(metrics, f"card_{series}")
        assert sum(of_cards.values()) == read(metrics, f"pool_{series}", pool="training")


def test_each_node_says_its_state_and_the_reason() -> None:
    assert read_all(measure(SIGHT), "node_info") == {("training", "gpu-1", "ready", "Applied"): 1}


def test_of_two_pools_a_node_is_told_of_in_the_one_that_acts() -> None:
    observing = a_pool("a-view", "share", reconcile="Observe", priority=900)
    metrics = measure(build_sight([observing, SHARED], [a_member()], PODS))
    assert {pool for pool, *_ in read_all(metrics, "node_info")} == {"training"}
    assert {pool for pool, *_ in read_all(metrics, "application_pods")} == {"training"}


def test_nodes_and_cards_are_told_only_where_that_is_switched_on() -> None:
    assert not any(
        {"node", "card"} & sample.labels.keys()
        for family in measure(SIGHT, per_node=False).registry.collect()
        for sample in family.samples
    )


# How many there are.


@pytest.fixture(scope="module")
def many() -> Sight:
    """5,000 nodes of 4 cards, with a pod on each."""
    nodes = [a_member(f"gpu-{index}", cards=4) for index in range(5_000)]
    pods = [a_holder(f"web-{index}", {0: 4}, node=f"gpu-{index}") for index in range(5_000)]
    return build_sight([SHARED], nodes, pods)


def count_series(sight: Sight, *, per_node: bool) -> int:
    """Those that are worked out of the sight."""
    with_it, without = measure(sight, per_node=per_node), measure(Sight(), per_node=per_node)
    counts = (
        sum(len(family.samples) for family in metrics.registry.collect())
        for metrics in (with_it, without)
    )
    return next(counts) - next(counts)


def test_five_thousand_nodes_are_as_many_series_as_the_page_says(many: Sight) -> None:
    of_pool, of_application = 18, 3
    page = (Path(__file__).parents[3] / "docs/metrics.md").read_text()
    assert (
        "So 5,000 nodes in one pool are 18 series; with `metrics.perNode` they are 45,000 more"
        in page
    )
    assert count_series(many, per_node=False) == of_pool + of_application
    assert count_series(many, per_node=True) == of_pool + of_application + 45_000
