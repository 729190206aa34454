"""Pools as `inspect --pools` shows them, from objects as the API server has them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from gpushare.api.k8s.node import MAX_CARDS
from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.inspect.pools_view import _note
from gpushare.names import Reason
from tests.kit.values.found_clusters import Asked, build_found_cluster, build_found_pool
from tests.kit.values.manifests import (
    NODE_POOL,
    NODE_POOL_LABEL,
    Json,
    build_bound_pod,
    build_node,
    build_pod,
    build_whole_card_pod,
)

MODE = {NODE_POOL_LABEL: NODE_POOL, "ack.node.gpu.schedule": "share"}


def build_member(name: str = "n1", *, total: int | None = 30) -> Json:
    """A node of the pool, Ready, with two cards."""
    return build_node(name, gpus=2, total=total, labels=MODE, ready=True)


def build_holder(name: str, cards: dict[int, int]) -> Json:
    """A pod on n1 with so much of these cards."""
    held = {str(card): units for card, units in cards.items()}
    return build_bound_pod(name, "n1", sum(cards.values()), allocation={"0": held})


def build_waiting(name: str, gib: int, pool: str, *, namespace: str = "default") -> Json:
    """A pod that the scheduler has tried."""
    pod = build_pod(name, gib=gib, selects={"gpushare.io/pool": pool})
    pod["metadata"] |= {"uid": name, "namespace": namespace}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    refused["message"] = "0/1 nodes are available"
    return {**pod, "status": {"phase": "Pending", "conditions": [refused]}}


class Shown:
    """What is shown of one pool with one node, and of these objects besides."""

    def __init__(self, folder: Path) -> None:
        self._asked = Asked(folder, "inspect", "--pools")

    def say(self, *pods: Json, **kinds: list[Json]) -> str:
        return self._asked.say(self._build(pods, kinds))

    def tell(self, *pods: Json, **kinds: list[Json]) -> Any:
        return self._asked.tell(self._build(pods, kinds))

    def _build(self, pods: Iterable[Json], kinds: dict[str, list[Json]]) -> Cluster:
        given = {"nodes": [build_member()], "pools": [build_found_pool()], **kinds}
        return build_found_cluster(pods=pods, **given)

    def tell_cards(self, *pods: Json, **kinds: list[Json]) -> dict[int, Json]:
        (pool,) = self.tell(*pods, **kinds)["pools"]
        return {card["index"]: card for card in pool["nodes"][0]["cards"]}

    def list_waiting(self, *pods: Json) -> list[tuple[str, str]]:
        return [(each["name"], each["reason"]) for each in self.tell(*pods)["waiting"]]


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return Shown(tmp_path)


def test_a_cluster_without_pools_is_said_to_have_none(shown: Shown) -> None:
    assert shown.say(pools=[]) == "No pools found\n"


def test_any_allocation_shows_in_the_bar_and_too_much_fills_it(shown: Shown) -> None:
    lines = shown.say(build_holder("small", {0: 1}), build_holder("large", {1: 20})).splitlines()
    assert "##..................  1/15 " in lines[2]
    assert "####################  20/15" in lines[3]


def test_an_unhealthy_card_is_shown_as_one(shown: Shown) -> None:
    report = {"metadata": {"name": "unhealthy-gpu-n1", "uid": "c"}, "data": {"gpus": "1"}}
    lines = shown.say(configmaps=[report]).splitlines()
    assert "largest free block 15 GiB" in lines[0]
    assert "0/15 unhealthy" in lines[3]
    cards = shown.tell_cards(configmaps=[report])
    assert [card["unhealthy"] for card in cards.values()] == [False, True]


@pytest.mark.parametrize(
    ("card", "units", "overcommitted"), [(0, 15, False), (0, 16, True), (5, 16, False)]
)
def test_a_card_of_which_more_is_given_out_than_it_has_is_overcommitted(
    shown: Shown, card: int, units: int, overcommitted: bool
) -> None:
    cards = shown.tell_cards(build_holder("a", {card: units}))
    assert cards[card]["overcommitted"] is overcommitted


def test_a_card_that_an_entry_names_and_the_node_has_not_is_shown(shown: Shown) -> None:
    assert "5    ????????????????????  4/0" in shown.say(build_holder("stale", {5: 4}))


def test_a_node_that_is_ready_with_a_warning_says_which() -> None:
    node = {"state": "ready", "reason": "ExtenderStale", "untoleratedTaints": [], "takesPods": True}
    assert _note(node).text == Reason.EXTENDER_STALE


def test_a_pod_that_runs_and_has_no_pool_does_not_wait(shown: Shown) -> None:
    """The controller reports it; here it holds a card."""
    pods = build_holder("older", {0: 4}), build_waiting("c", 40, "training")
    assert shown.list_waiting(*pods) == [("c", "LargerThanAnyCard")]
    assert "Unrouted" not in shown.say(*pods)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (None, ("Pending", "No scheduler has tried to place the pod yet")),
        (
            {"reason": "SchedulerError", "message": "extender: connection refused"},
            ("Unschedulable", "The scheduler failed: extender: connection refused"),
        ),
        (
            {"reason": "SchedulingGated", "message": "Scheduling is blocked"},
            ("SchedulingGated", "Scheduling is blocked"),
        ),
    ],
)
def test_a_pod_waits_whatever_the_scheduler_says_of_it(
    shown: Shown, condition: Json | None, why: tuple[str, str]
) -> None:
    pod = build_waiting("a", 2, "training")
    said = [{"type": "PodScheduled", "status": "False", **condition}] if condition else []
    pod["status"]["conditions"] = said
    (waiting,) = shown.tell(pod)["waiting"]
    assert (waiting["name"], waiting["reason"], waiting["message"]) == ("a", *why)


def test_gated_pods_are_shown_apart_as_no_demand(shown: Shown) -> None:
    pods = [build_waiting(name, 4, "training") for name in ("a", "b", "c")]
    for pod in pods[:2]:
        pod["spec"]["schedulingGates"] = [{"name": "team/quota"}]
        pod["status"]["conditions"] = []
    waits, gated = shown.say(*pods).split("Pods behind scheduling gates")
    assert "default    c " in waits
    assert "default    a " not in waits
    assert gated.splitlines()[2].split() == ["default", "2", "8", "training", "team/quota"]
    told = {pod["name"]: (pod["gates"], pod["noDemand"]) for pod in shown.tell(*pods)["waiting"]}
    assert told["a"] == (["team/quota"], "its scheduling gates hold it back")
    assert told["c"] == ([], "the scheduler names no GPU resource that it lacks")


@pytest.mark.parametrize(
    ("minute", "asked", "why"),
    [("11:55", 4, None), ("11:45", 0, "neither placed nor refused")],
    ids=["young", "old"],
)
def test_a_pod_that_no_scheduler_answers_is_demand_for_some_minutes(
    shown: Shown, minute: str, asked: int, why: str | None
) -> None:
    pod = build_waiting("a", 4, "training")
    pod["metadata"]["creationTimestamp"] = f"2026-03-01T{minute}:00Z"
    pod["status"]["conditions"] = []
    told = shown.tell(pod)
    assert told["pools"][0]["memoryRequestedGiB"] == asked
    (waiting,) = told["waiting"]
    assert (why or "") in (waiting["noDemand"] or "")
    assert bool(waiting["noDemand"]) is bool(why)


def test_a_typing_error_leaves_the_pools_figures_as_they_are(shown: Shown) -> None:
    (before,), (after,) = (
        shown.tell(*pods)["pools"] for pods in ([], [build_waiting("a", 10**10, "training")])
    )
    assert after == before


def test_a_node_with_a_taint_of_its_own_says_which(shown: Shown) -> None:
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}
    node = build_member() | {"spec": {"taints": [taint]}}
    nodes = [node, build_member("n2", total=8)]
    said = shown.say(nodes=nodes)
    assert "largest free block 4 GiB" in said
    assert "Updating, taint ToBeDeletedByClusterAutoscaler=1:NoSchedule" in said
    (pool,) = shown.tell(nodes=nodes)["pools"]
    assert pool["nodes"][0]["takesPods"] is False
    assert pool["nodes"][0]["untoleratedTaints"] == ["ToBeDeletedByClusterAutoscaler=1:NoSchedule"]
    node["spec"]["taints"][0] = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    assert "largest free block 15 GiB" in shown.say(nodes=nodes)


def test_a_pod_that_goes_waits_for_nothing(shown: Shown) -> None:
    pod = build_waiting("a", 2, "training")
    pod["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert shown.list_waiting(pod) == []


def test_a_pod_waits_though_a_clock_behind_the_servers_has_it_created_tomorrow(
    shown: Shown,
) -> None:
    pod = build_waiting("a", 2, "nowhere")
    pod["metadata"]["creationTimestamp"] = "2026-03-02T12:00:00Z"
    assert shown.list_waiting(pod) == [("a", "PoolNotFound")]


@pytest.mark.parametrize("count", ["1e40", "9999999999999999999E"])
def test_a_node_that_says_it_has_any_number_of_cards_costs_no_more_than_others(
    shown: Shown, count: str
) -> None:
    node = build_member()
    for offered in (node["status"]["allocatable"], node["status"]["capacity"]):
        offered |= {"aliyun.com/gpu-count": count, "aliyun.com/gpu-mem": count}
    assert len(shown.tell_cards(nodes=[node])) == MAX_CARDS


def test_entries_for_cards_that_there_are_not_are_shown_within_bounds(shown: Shown) -> None:
    pods = [
        build_holder(f"p{part}", dict.fromkeys(range(part * 100, part * 100 + 100), 1))
        for part in range(12)
    ]
    (pool,) = shown.tell(*pods)["pools"]
    assert len(pool["nodes"][0]["cards"]) == MAX_CARDS
    assert pool["memoryAllocatedGiB"] == 2


def test_a_pool_whose_status_cannot_be_read_is_said_so(shown: Shown) -> None:
    pool = {**build_found_pool(), "status": {"conditions": "none"}}
    assert "training  its status can't be read: status.conditions" in shown.say(pools=[pool])
    (told,) = shown.tell(pools=[pool])["unreadable"]
    assert (told["name"], told["part"]) == ("training", "status")


def test_where_plugins_count_in_mib_amounts_do_and_sums_are_in_gib(shown: Shown) -> None:
    said = shown.say(build_holder("pod", {0: 4096}), nodes=[build_member(total=32768)])
    for part in ("4/32 GiB allocated", "ALLOCATED(MiB)", "4096/16384"):
        assert part in said


@pytest.mark.parametrize(("total", "unit"), [(30, "GiB"), (32768, "MiB")])
def test_what_a_pod_asks_for_is_in_the_unit_of_the_cluster_though_its_pool_is_not_there(
    shown: Shown, total: int, unit: str
) -> None:
    pod, nodes = build_waiting("lost", 3, "nowhere"), [build_member(total=total)]
    assert f"POD   GPU-MEM({unit})  POOL" in shown.say(pod, nodes=nodes, pools=[])
    assert shown.tell(pod, nodes=nodes, pools=[])["unit"] == unit


def test_a_member_that_offers_no_memory_shows_how_much_of_its_resource_is_requested(
    shown: Shown,
) -> None:
    node = build_node("n1", labels={NODE_POOL_LABEL: NODE_POOL}, offers={"nvidia.com/gpu": "8"})
    pod = build_whole_card_pod("p", cards=3, nodeName="n1")
    pod["metadata"] |= {"uid": "p", "namespace": "default"}
    pools = [build_found_pool(schedule="default")]
    assert "3/8 nvidia.com/gpu" in shown.say(pod, nodes=[node], pools=pools)
    ((member,),) = [pool["nodes"] for pool in shown.tell(pod, nodes=[node], pools=pools)["pools"]]
    used = {"name": "nvidia.com/gpu", "allocatable": 8, "requested": 3}
    assert member["resources"] == [used]


def test_a_node_in_no_pool_that_another_stack_serves_is_listed_with_the_reason(
    shown: Shown,
) -> None:
    free, taken = build_node("free", offers={"nvidia.com/gpu": "1"}), build_node("taken")
    spec = {"driver": "gpu.nvidia.com", "nodeName": "taken", "devices": [{"name": "gpu-0"}]}
    cards = {"metadata": {"name": "taken-slice", "uid": "s"}, "spec": spec}
    given: dict[str, list[Json]] = {
        "nodes": [build_member(), free, taken, build_node("no-gpus")],
        "resourceslices": [cards],
    }
    outside = {each["name"]: each["reason"] for each in shown.tell(**given)["outside"]}
    assert outside == {"free": None, "taken": "OtherStack"}
    text = shown.say(**given).partition("Nodes in no pool, with another stack")[2]
    assert "taken" in text
    assert "ResourceSlice taken-slice" in text
    assert "free" not in text
