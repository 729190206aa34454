"""Pools as `inspect --pools` shows them, from objects as the API server has them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpushare.api.cluster import Cluster, Kind, keep_object
from gpushare.api.node import MAX_CARDS
from gpushare.cli.inspectpools import _note
from gpushare.cli.snapshots import build_snapshot
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.inspect.pools import PoolNode, view_pools
from gpushare.core.isolation import NOTHING_SHARED
from gpushare.core.knownsetup import read_setup
from gpushare.core.records import NodeRecords
from gpushare.names import Reason
from tests.kit.cluster.command_line import run_command
from tests.kit.values.manifests import (
    NODE_POOL,
    NODE_POOL_LABEL,
    build_bound_pod,
    build_node,
    build_pod,
    build_pool,
)
from tests.kit.values.node_plans import a_settled
from tests.kit.values.objects import MEMORY, a_node, a_plugin_pod, a_pool, a_world
from tests.kit.values.objects import NOW as APPLIED_AT

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MODE = {NODE_POOL_LABEL: NODE_POOL, "ack.node.gpu.schedule": "share"}


def build_member(name: str, *, total: int | None = 30, **spec: Any) -> Json:
    """A node of the pool, Ready, with two cards."""
    node = build_node(name, gpus=2, total=total)
    node["metadata"]["labels"] = MODE
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return {**node, "spec": spec}


def build_found_pool(name: str = "training", **spec: Any) -> Json:
    pool = build_pool(name, **spec)
    pool["metadata"] |= {"uid": name, "creationTimestamp": "2026-02-01T00:00:00Z"}
    return pool


def build_waiting(name: str, gib: int, pool: str, *, namespace: str = "default") -> Json:
    """A pod that the scheduler has tried."""
    pod = build_pod(name, gib=gib, selects={"gpushare.io/pool": pool})
    pod["metadata"] |= {"uid": name, "namespace": namespace}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    refused["message"] = "0/1 nodes are available"
    return {**pod, "status": {"phase": "Pending", "conditions": [refused]}}


class Shown:
    """What the command says of a cluster."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "cluster.json"

    def __call__(self, *options: str, **kinds: list[Json]) -> str:
        kept = {
            kind: tuple(raw for each in items if (raw := keep_object(Kind(kind), each)) is not None)
            for kind, items in kinds.items()
        }
        cluster = Cluster(NOW, **kept)  # type: ignore[arg-type]
        self._file.write_bytes(build_snapshot(cluster))
        ended = run_command("inspect", "--pools", "--snapshot", str(self._file), *options)
        assert (ended.code, ended.err) == (0, "")
        return ended.out


@pytest.fixture
def show(tmp_path: Path) -> Shown:
    return Shown(tmp_path)


def test_a_cluster_without_pools_is_said_to_have_none(show: Shown) -> None:
    assert show(nodes=[build_member("n1")]) == "There are no pools.\n"


def test_a_pool_that_no_controller_has_adopted_yet_has_its_nodes(show: Shown) -> None:
    shown = show("-o", "json", nodes=[build_member("n1")], pools=[build_found_pool()])
    (pool,) = json.loads(shown)["pools"]
    assert [node["name"] for node in pool["nodes"]] == ["n1"]


def test_any_allocation_shows_in_the_bar_and_too_much_fills_it(show: Shown) -> None:
    pods = [
        build_bound_pod("small", "n1", 1, allocation={"0": {"0": 1}}),
        build_bound_pod("large", "n1", 20, allocation={"0": {"1": 20}}),
    ]
    lines = show(nodes=[build_member("n1")], pods=pods, pools=[build_found_pool()]).splitlines()
    assert "##..................  1/15 " in lines[2]
    assert "####################  20/15" in lines[3]


SIDECAR = {"name": "s", "restartPolicy": "Always", "resources": {"limits": {MEMORY: "9"}}}


@pytest.mark.parametrize(
    ("pod", "annotations", "extra", "allocated", "largest"),
    [
        # The extender remembers the limits, whatever becomes of what it wrote.
        (8, {"IDX": "0", "POD": "1"}, {}, 8, 15),
        (3, {"IDX": "+1", "POD": "3"}, {}, 3, 15),
        # No such card: nobody but kube-scheduler counts the pod.
        (3, {"IDX": "7", "POD": "3"}, {}, 0, 15),
        (18, {"IDX": "7", "POD": "18"}, {}, 0, 12),
        # Sidecars are kube-scheduler's alone; it has 30 - 20 left.
        (11, {"IDX": "0", "POD": "11"}, {"initContainers": [SIDECAR]}, 11, 10),
        (0, {"IDX": "0"}, {"initContainers": [SIDECAR]}, 0, 15),
    ],
)
def test_cards_are_counted_as_the_extender_counts_them_and_no_more_than_the_node_has(
    show: Shown, pod: int, annotations: dict[str, str], extra: Json, allocated: int, largest: int
) -> None:
    holder = build_bound_pod("a", "n1", *([pod] if pod else []))
    written = {f"ALIYUN_COM_GPU_MEM_{key}": value for key, value in annotations.items()}
    holder["metadata"]["annotations"] = written
    holder["spec"] |= extra
    cluster = {"nodes": [build_member("n1")], "pods": [holder], "pools": [build_found_pool()]}
    (pool,) = json.loads(show("-o", "json", **cluster))["pools"]
    assert (pool["memoryAllocatedGiB"], pool["largestFreeBlockGiB"]) == (allocated, largest)


def test_an_unhealthy_card_is_shown_as_one(show: Shown) -> None:
    report = {"metadata": {"name": "unhealthy-gpu-n1", "uid": "c"}, "data": {"gpus": "1"}}
    cluster = {"nodes": [build_member("n1")], "pools": [build_found_pool()]}
    lines = show(configmaps=[report], **cluster).splitlines()
    assert "largest free block 15 GiB" in lines[0]
    assert "0/15 unhealthy" in lines[3]
    (pool,) = json.loads(show("-o", "json", configmaps=[report], **cluster))["pools"]
    assert [card["unhealthy"] for card in pool["nodes"][0]["cards"]] == [False, True]
    both = {**report, "data": {"gpus": "0,1"}}
    assert "largest free block 0 GiB" in show(configmaps=[both], **cluster)


@pytest.mark.parametrize(
    ("card", "units", "overcommitted"), [(0, 15, False), (0, 16, True), (5, 16, False)]
)
def test_a_card_of_which_more_is_given_out_than_it_has_is_overcommitted(
    show: Shown, card: int, units: int, overcommitted: bool
) -> None:
    pod = build_bound_pod("a", "n1", units, allocation={"0": {str(card): units}})
    cluster = {"nodes": [build_member("n1")], "pods": [pod], "pools": [build_found_pool()]}
    (pool,) = json.loads(show("-o", "json", **cluster))["pools"]
    told = {each["index"]: each["overcommitted"] for each in pool["nodes"][0]["cards"]}
    assert told[card] is overcommitted


def test_a_card_that_an_entry_names_and_the_node_has_not_is_shown(show: Shown) -> None:
    pod = build_bound_pod("stale", "n1", 4, allocation={"0": {"5": 4}})
    shown = show(nodes=[build_member("n1")], pods=[pod], pools=[build_found_pool()])
    assert "5    ????????????????????  4/0" in shown


def test_a_node_that_is_ready_with_a_warning_says_which() -> None:
    plan = NodePlan("n1", NodeState.READY, Reason.EXTENDER_STALE, "card 2")
    node = PoolNode(
        "n1", plan, takes_pods=True, cordoned=False, labelled="share",
        records=NodeRecords(), isolation=NOTHING_SHARED, cards=(),
    )  # fmt: skip
    assert _note(node).text == Reason.EXTENDER_STALE


def test_a_node_without_its_plugin_has_no_cards_to_show(show: Shown) -> None:
    shown = show(nodes=[build_member("n1", total=None)], pools=[build_found_pool()])
    assert "  n1    -          -               " in shown


def test_the_wide_table_names_the_pods_of_each_card(show: Shown) -> None:
    pods = [
        build_bound_pod(name, "n1", 4, allocation={"0": {"0": 4}}, namespace="vision")
        for name in ("b", "a")
    ]
    cluster = {"nodes": [build_member("n1")], "pods": pods, "pools": [build_found_pool()]}
    assert show("-o", "wide", **cluster).splitlines()[2].endswith("  vision/a, vision/b")
    assert "vision/a" not in show(**cluster)


def test_a_pod_that_runs_and_has_no_pool_does_not_wait(show: Shown) -> None:
    """The controller reports it; here it holds a card."""
    runs = build_bound_pod("older", "n1", 4, allocation={"0": {"0": 4}})
    waits = build_waiting("c", 40, "training")
    cluster = {"nodes": [build_member("n1")], "pods": [runs, waits], "pools": [build_found_pool()]}
    waiting = json.loads(show("-o", "json", **cluster))["waiting"]
    assert [each["name"] for each in waiting] == ["c"]
    assert "Unrouted" not in show(**cluster)


def test_pods_that_wait_are_sorted_and_filtered_by_namespace(show: Shown) -> None:
    waiting = [
        build_waiting("b", 2, "nowhere"),
        build_waiting("a", 2, "nowhere", namespace="vision"),
        build_waiting("c", 40, "training"),
    ]
    cluster = {"nodes": [build_member("n1")], "pods": waiting, "pools": [build_found_pool()]}
    cluster["namespaces"] = [{"metadata": {"name": "vision", "uid": "vision"}}]

    def list_waiting(*options: str) -> list[tuple[str, str]]:
        found = json.loads(show("-o", "json", *options, **cluster))["waiting"]
        return [(each["name"], each["reason"]) for each in found]

    assert list_waiting() == [
        ("b", "PoolNotFound"),
        ("c", "LargerThanAnyCard"),
        ("a", "PoolNotFound"),
    ]
    assert list_waiting("-n", "vision") == [("a", "PoolNotFound")]


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (None, ("Pending", "no scheduler has looked at it yet")),
        (
            {"reason": "SchedulerError", "message": "extender: connection refused"},
            ("Unschedulable", "the scheduler failed: extender: connection refused"),
        ),
        (
            {"reason": "SchedulingGated", "message": "Scheduling is blocked"},
            ("SchedulingGated", "Scheduling is blocked"),
        ),
    ],
)
def test_a_pod_waits_whatever_the_scheduler_says_of_it(
    show: Shown, condition: Json | None, why: tuple[str, str]
) -> None:
    pod = build_waiting("a", 2, "training")
    said = [{"type": "PodScheduled", "status": "False", **condition}] if condition else []
    pod["status"]["conditions"] = said
    cluster = {"nodes": [build_member("n1")], "pods": [pod], "pools": [build_found_pool()]}
    (waiting,) = json.loads(show("-o", "json", **cluster))["waiting"]
    assert (waiting["name"], waiting["reason"], waiting["message"]) == ("a", *why)


def test_a_pod_that_goes_waits_for_nothing(show: Shown) -> None:
    pod = build_waiting("a", 2, "training")
    pod["status"]["conditions"] = []
    pod["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert json.loads(show("-o", "json", pods=[pod]))["waiting"] == []


def test_a_pod_waits_though_a_clock_behind_the_servers_has_it_created_tomorrow(
    show: Shown,
) -> None:
    pod = build_waiting("a", 2, "nowhere")
    pod["metadata"]["creationTimestamp"] = "2026-03-02T12:00:00Z"
    assert json.loads(show("-o", "json", pods=[pod]))["waiting"][0]["reason"] == "PoolNotFound"


@pytest.mark.parametrize("count", ["1e40", "9999999999999999999E"])
def test_a_node_that_says_it_has_any_number_of_cards_costs_no_more_than_others(
    show: Shown, count: str
) -> None:
    node = build_member("n1")
    for offered in (node["status"]["allocatable"], node["status"]["capacity"]):
        offered |= {"aliyun.com/gpu-count": count, "aliyun.com/gpu-mem": count}
    (pool,) = json.loads(show("-o", "json", nodes=[node], pools=[build_found_pool()]))["pools"]
    assert pool["gpus"] == len(pool["nodes"][0]["cards"]) == MAX_CARDS


def test_entries_for_cards_that_there_are_not_are_shown_within_bounds(show: Shown) -> None:
    pods = [
        build_bound_pod(
            f"p{part}",
            "n1",
            1,
            allocation={"0": {str(part * 100 + card): 1 for card in range(100)}},
        )
        for part in range(12)
    ]
    cluster = {"nodes": [build_member("n1")], "pods": pods, "pools": [build_found_pool()]}
    (pool,) = json.loads(show("-o", "json", **cluster))["pools"]
    assert len(pool["nodes"][0]["cards"]) == MAX_CARDS
    assert pool["memoryAllocatedGiB"] == 2


def test_a_pool_whose_status_cannot_be_read_is_said_so(show: Shown) -> None:
    pool = {**build_found_pool(), "status": {"conditions": "none"}}
    assert "training  its status can't be read: status.conditions: Input" in show(pools=[pool])
    (told,) = json.loads(show("-o", "json", pools=[pool]))["unreadable"]
    assert (told["name"], told["part"]) == ("training", "status")


def test_stranded_memory_is_less_than_the_median_pod_asks_for(show: Shown) -> None:
    pods = [build_bound_pod("large", "n1", 12, allocation={"0": {"0": 12}})]
    shown = show(nodes=[build_member("n1")], pods=pods, pools=[build_found_pool()])
    assert "12/30 GiB allocated, largest free block 15 GiB, stranded 3 GiB" in shown


def test_where_plugins_count_in_mib_amounts_do_and_sums_are_in_gib(show: Shown) -> None:
    pods = [build_bound_pod("pod", "n1", 4096, allocation={"0": {"0": 4096}})]
    cluster = {"pods": pods, "pools": [build_found_pool()]}
    shown = show(nodes=[build_member("n1", total=32768)], **cluster)
    assert "4/32 GiB allocated" in shown
    assert "ALLOCATED(MiB)" in shown
    assert "4096/16384" in shown


@pytest.mark.parametrize(("total", "unit"), [(30, "GiB"), (32768, "MiB")])
def test_what_a_pod_asks_for_is_in_the_unit_of_the_cluster_though_its_pool_is_not_there(
    show: Shown, total: int, unit: str
) -> None:
    cluster = {
        "nodes": [build_member("n1", total=total)],
        "pods": [build_waiting("lost", 3, "nowhere")],
    }
    assert f"POD   GPU-MEM({unit})  POOL" in show(**cluster)
    assert json.loads(show("-o", "json", **cluster))["unit"] == unit


@pytest.mark.parametrize(
    ("others", "reason"), [((), Reason.APPLIED), ((15, 15), Reason.MEMORY_UNIT_DIFFERS)]
)
def test_a_node_counts_in_another_unit_where_most_others_do(
    others: tuple[int, ...], reason: Reason
) -> None:
    pool = a_pool(schedule="share")
    node = a_settled(allocatable={MEMORY: 16384}, gpu_count=1)
    rest = (
        a_node(f"other-{index}", allocatable={MEMORY: total}, gpu_count=1)
        for index, total in enumerate(others)
    )
    world = a_world(pools=(pool,), nodes=(node, *rest), pods=(a_plugin_pod(),))
    (view,) = view_pools(
        world, read_setup(None, world).setup, (), (), APPLIED_AT + timedelta(minutes=5)
    ).pools
    assert {each.name: each.plan.reason for each in view.nodes}[node.name] is reason


def test_a_node_tells_its_modes_its_cordon_and_what_each_pod_holds(show: Shown) -> None:
    cluster = {
        "nodes": [build_member("n1", unschedulable=True)],
        "pods": [build_bound_pod("small", "n1", 4, allocation={"0": {"1": 4}})],
        "pools": [build_found_pool(schedule="cgpu")],
    }
    (pool,) = json.loads(show("-o", "json", **cluster))["pools"]
    (node,) = pool["nodes"]
    assert (node["cordoned"], node["takesPods"]) == (True, False)
    assert (node["modeByLabels"], node["modeApplied"], node["change"]) == ("share", None, None)
    assert (node["isolation"]["containers"], node["isolation"]["unknown"]) == (1, 1)
    assert [card["held"] for card in node["cards"]] == [{}, {"default/small": 4}]
