"""A change of isolation on a real node: what containers get meanwhile, and what the pool claims."""

import time
from collections.abc import Callable

import pytest

from tests.kit.cluster.expect import (
    expect,
    expect_not_lost,
    expect_pool_ready,
    expect_running,
    expect_step,
    read_change,
)
from tests.kit.nodebench import NodeBench, expect_truth, given_pool

EVENTS = "/api/v1/namespaces/default/events"
DISABLED = "cgpu.disable.isolation"
SHORT_SECONDS = 5
LONG_SECONDS = 90
"""A node is NotReady after 50 s."""


def flip(bench: NodeBench) -> str:
    """Have the pool change to the other of Basic's two sharing modes, and return it."""
    schedule = "share" if bench.pool()["spec"]["schedule"] == "cgpu" else "cgpu"
    bench.change_pool(schedule=schedule)
    return schedule


def test_pods_that_run_keep_what_they_got_and_those_that_come_are_isolated(
    bench: NodeBench,
) -> None:
    bench.clear()
    bench.label(bench.host.name, {"cgpu": "false"})
    given_pool(bench, "Basic", "share")
    early = [bench.run_pod(f"early-{number}", gib=1) for number in range(2)]
    expect_truth(bench)
    before = bench.containers()

    bench.change_pool(schedule="cgpu")
    expect_step(bench, bench.host.name, "Cordoned")
    coming = [bench.send_pod(f"coming-{number}", 1) for number in range(4)]
    expect_pool_ready(bench, nodes=1)

    for name in coming:
        expect_running(bench, name)
        assert bench.is_held(name)
    for name in early:
        expect_not_lost(bench.pod(name))
        assert not bench.is_held(name)
    assert before.items() <= bench.containers().items()
    expect_truth(bench)


def until_cordoned(bench: NodeBench, old_plugin: str) -> None:
    expect_step(bench, bench.host.name, "Cordoned")


def until_labelled(bench: NodeBench, old_plugin: str) -> None:
    before = bench.node(bench.host.name)["metadata"]["labels"][DISABLED]
    expect(
        bench,
        "the labels are written",
        lambda: bench.node(bench.host.name)["metadata"]["labels"][DISABLED] != before,
    )


def until_restarted(bench: NodeBench, old_plugin: str) -> None:
    """The new plugin runs, and the operator has not yet believed it."""
    expect(bench, "the new plugin runs", lambda: bench.has_other_plugin(old_plugin))
    assert read_change(bench.node(bench.host.name))


@pytest.mark.parametrize(
    ("program", "phase", "seconds"),
    [
        ("kubelet", until_cordoned, SHORT_SECONDS),
        ("kubelet", until_labelled, SHORT_SECONDS),
        ("kubelet", until_restarted, SHORT_SECONDS),
        pytest.param("containerd", until_labelled, SHORT_SECONDS, marks=pytest.mark.long),
        pytest.param("kubelet", until_cordoned, LONG_SECONDS, marks=pytest.mark.long),
        pytest.param("kubelet", until_labelled, LONG_SECONDS, marks=pytest.mark.long),
        pytest.param("kubelet", until_restarted, LONG_SECONDS, marks=pytest.mark.long),
        pytest.param("containerd", until_labelled, LONG_SECONDS, marks=pytest.mark.long),
    ],
)
def test_a_change_goes_on_when_a_program_that_died_is_back(
    bench: NodeBench, program: str, phase: Callable[[NodeBench, str], None], seconds: float
) -> None:
    given_pool(bench, "Basic")
    early = bench.run_pod("early")
    before, plugin = bench.containers(), bench.plugin()["metadata"]["uid"]
    was_held = bench.is_held(early)

    schedule = flip(bench)
    phase(bench, plugin)
    bench.host.kill(program)
    time.sleep(seconds)  # its absence is what is tried
    bench.host.start(program)

    expect_pool_ready(bench, nodes=1, within=90)
    late = bench.run_pod("late")
    assert bench.is_held(late) == (schedule == "cgpu")
    assert bench.is_held(early) == was_held
    assert before.items() <= bench.containers().items()
    expect_truth(bench)


def test_a_kubelet_that_restarts_ends_pods_that_select_what_the_node_has_no_more(
    bench: NodeBench,
) -> None:
    given_pool(bench, "Basic")
    node, label = bench.host.name, {"example.com/there": "yes"}
    bench.label(node, label)
    # Without GPU memory, which the kubelet may miss first: until the plugin has registered anew.
    name = bench.run_pod("selects", gib=None, selects=label)
    stays = bench.run_pod("stays")
    bench.label(node, dict.fromkeys(label))

    bench.host.kill("kubelet")
    bench.host.start("kubelet")

    expect(bench, "it ended", lambda: bench.pod(name)["status"]["phase"] != "Running")
    events = bench.call("GET", f"{EVENTS}?fieldSelector=involvedObject.name%3D{name}")["items"]
    assert "NodeAffinity" in [event["reason"] for event in events]
    expect_running(bench, stays)
