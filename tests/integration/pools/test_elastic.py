"""Idle nodes move to pools where pods wait: recommended, accepted, automatic, or held up."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.kit.bench import Bench, Json
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import (
    expect,
    expect_offered,
    expect_pool_ready,
    expect_running,
    read_events,
)
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import place_pod
from tests.kit.values.manifests import build_pod, build_pool

POOL, MODE = "gpushare.io/pool", "ack.node.gpu.schedule"
AUTOMATIC = {"mode": "Automatic", "pendingFor": "2s", "idleFor": "2s"}
RECOMMEND = {"mode": "Recommend", "pendingFor": "2s", "idleFor": "2s"}


def build_elastic(name: str, least: int, demand: Mapping[str, str], **more: Any) -> Json:
    pool = build_pool(name, demand=dict(demand), **more)
    pool["spec"]["nodes"]["size"] = {"min": least, "max": 4}
    return pool


def given_pools(bench: Bench, demand: Mapping[str, str], *, idle: int = 1, **train: Any) -> None:
    """Create a full node in pool `train`, and `idle` nodes in pool `serve` beside a busy one."""
    bench.install("Professional")
    bench.operators.standard()
    bench.add_nodes("t1", labels={MODE: "cgpu"})
    bench.create_pool(build_elastic("train", 1, demand, schedule="cgpu", **train))
    expect_pool_ready(bench, "train", nodes=1)
    expect_running(bench, place_pod(bench, "full", "t1", pool="train", gib=15))
    bench.change_pool("train", nodes={"size": {"max": 1}})
    bench.create_pool(build_elastic("serve", 1, demand))
    names = [f"s{number}" for number in range(idle + 1)]
    bench.add_nodes(*names, labels={MODE: "share"})
    expect_pool_ready(bench, "serve", nodes=len(names))
    for name in names:
        expect_offered(bench, name)
    expect_running(bench, place_pod(bench, "served", "s0", pool="serve"))
    bench.change_pool("train", nodes={"size": {"max": 4}})


def wait_in(bench: Bench, pool: str, name: str = "waiting") -> str:
    return bench.create_pod(build_pod(name, gib=12, selects={POOL: pool}))


def expect_move(bench: Bench, text: str = "") -> Json:
    """Wait until a move to `train` is recommended whose message has this text; return it."""

    def probe() -> Json | None:
        found: Json = bench.pool("train").get("status", {}).get("recommendation") or {}
        return found if text in found.get("message", "\0") else None

    return expect(bench, f"a move is recommended: {text}", probe)


def read_pool(bench: Bench, node: str) -> str:
    label: str = bench.node(node)["metadata"]["labels"][POOL]
    return label


def count_moves(bench: Bench) -> float:
    (controller,) = (each for each in bench.operators.installation.processes if each.alive)
    return read_metric(controller, "gpushare_node_moves_total", pool="train", source="serve")


def run(bench: Bench, *arguments: str) -> Any:
    done = run_command(*arguments, "-o", "json", kubeconfig=bench.cluster.kubeconfig)
    assert done.code == 0, done
    return json.loads(done.out)


def test_a_recommended_move_is_shown_and_made_once_a_user_accepts_it(bench: Bench) -> None:
    given_pools(bench, RECOMMEND)
    wait_in(bench, "train")
    shown = expect_move(bench, "recommend --accept")
    (listed,) = run(bench, "recommend")["recommendations"]
    assert (listed["node"], listed["source"], listed["pool"]) == ("s1", "serve", "train")
    told = expect(
        bench, "an Event", lambda: read_events(bench, bench.pool("serve"), "MoveRecommended")
    )
    assert "s1" in told[0]["note"]
    assert read_pool(bench, "s1") == "serve"

    other = run_command(
        "recommend", "--accept", "0123456789ab", kubeconfig=bench.cluster.kubeconfig
    )
    assert other.code == 12
    run(bench, "recommend", "--accept", shown["hash"])
    expect_running(bench, "waiting")
    assert read_pool(bench, "s1") == "train"
    expect(bench, "an Event", lambda: read_events(bench, bench.pool("serve"), "NodeMoves"))
    expect_pool_ready(bench, "train", nodes=2)
    assert "2/1-4" in bench.cluster.kubectl("get", "gsp", "train")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("freeze", {"reason": "an incident"}, "an incident"),
        ("windows", [{"schedule": "0 0 29 2 *", "duration": "1h"}], "pool train may change"),
    ],
)
def test_an_automatic_move_waits_while_its_pool_may_not_change(
    bench: Bench, field: str, value: Any, said: str
) -> None:
    given_pools(bench, AUTOMATIC, rollout={field: value})
    wait_in(bench, "train")
    expect_move(bench, said)
    assert read_pool(bench, "s1") == "serve"
    before = count_moves(bench)
    bench.change_pool("train", rollout={field: None})
    expect_running(bench, "waiting")
    assert count_moves(bench) == before + 1


def test_a_pod_that_is_bound_while_the_node_begins_to_move_keeps_it(bench: Bench) -> None:
    given_pools(bench, AUTOMATIC, rollout={"freeze": {"reason": "an incident"}})
    wait_in(bench, "train")
    expect_move(bench, "an incident")
    late = place_pod(bench, "late", "s1", pool="serve")
    expect_running(bench, late)
    bench.change_pool("train", rollout={"freeze": None})
    expect(
        bench,
        "no move is recommended any more",
        lambda: not bench.pool("train")["status"].get("recommendation"),
    )
    assert read_pool(bench, "s1") == "serve"
    assert bench.pod("late")["status"]["phase"] == "Running"


def test_of_two_pools_that_wait_for_one_idle_node_the_first_gets_it(bench: Bench) -> None:
    given_pools(bench, AUTOMATIC)
    wait_in(bench, "train")
    expect_running(bench, "waiting")
    mark = bench.audit.mark()
    bench.create_pool(build_elastic("second", 0, AUTOMATIC, schedule="cgpu"))
    wait_in(bench, "second", "also-waiting")
    pool = expect_pool_ready(bench, "serve", nodes=1)
    assert pool["spec"]["nodes"]["size"]["min"] == 1
    expect(
        bench,
        "the scheduler has refused the second pod",
        lambda: bench.pod("also-waiting")["status"].get("conditions"),
    )
    moved = {call.name for call in bench.audit.our_writes(mark) if call.resource == "nodes"}
    assert moved == set()


@pytest.mark.parametrize("field", ["min", "max"])
def test_a_typing_error_in_a_size_moves_no_node_with_pods(bench: Bench, field: str) -> None:
    given_pools(bench, AUTOMATIC)
    running = {pod["metadata"]["name"] for pod in bench.pods() if pod["spec"].get("nodeName")}
    bench.change_pool("serve", nodes={"size": {"min": 0, "max": 0}} if field == "max" else {})
    bench.change_pool("train", nodes={"size": {"min": 4}} if field == "min" else {})
    expect(bench, "the idle node has left", lambda: read_pool(bench, "s1") != "serve" or None)
    after = {pod["metadata"]["name"] for pod in bench.pods() if pod["spec"].get("nodeName")}
    assert after >= running
    assert not bench.node("s0")["spec"].get("unschedulable")
