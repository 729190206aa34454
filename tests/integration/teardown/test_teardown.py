"""Isolation that shall go for good, by hand: the node says what it waits for, to the end."""

from devcluster import names
from tests.kit.bench import MODE, NODES, Bench
from tests.kit.cluster.expect import expect, expect_reason, expect_running, is_isolated
from tests.kit.cluster.node_teardown import (
    expect_event,
    expect_isolating,
    expect_shared_for_good,
    given_isolating_pool,
    has_module,
    reboot,
)
from tests.kit.cluster.sharing_pools import place_pod

TEARDOWN = "gpushare.io/teardown"
REMOVED_BY_HAND = {names.UNINSTALL: "true"}
"""On a node where a person has typed what the Event says, up to the reboot."""


def test_a_node_is_torn_down_by_a_person_and_another_is_left_alone(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.standard()
    given_isolating_pool(bench, "training", "n1", "n2")
    expect_isolating(bench, training=2)
    bench.change_pool(schedule="share")
    expect_reason(bench, "n1", "RequiresTeardown", "gpushare.io/teardown=start")

    bench.annotate(f"{NODES}/n1", {TEARDOWN: "start"})
    expect_reason(bench, "n1", "ModuleRemoval", "render teardown n1")
    node = bench.node("n1")
    assert node["metadata"]["labels"][MODE] == "share"
    assert node["spec"]["unschedulable"]
    expect_event(bench, "n1", "ModuleRemoval", "annotate node n1 gpushare.io/teardown=done")
    expect(bench, "no installer is left", lambda: "n1" not in bench.plugins("cgpu-installer"))

    bench.annotate(f"{NODES}/n1", REMOVED_BY_HAND)
    reboot(bench, "n1")
    expect_reason(bench, "n1", "ModuleUnverified")
    assert bench.node("n1")["spec"]["unschedulable"]
    bench.annotate(f"{NODES}/n1", {TEARDOWN: "done"})
    expect_shared_for_good(bench, "n1")

    pod = expect_running(bench, place_pod(bench, "after", "n1"))
    assert not is_isolated(pod)
    expect_reason(bench, "n2", "RequiresTeardown")
    assert bench.node("n2")["metadata"]["labels"][MODE] == "cgpu"
    assert has_module(bench, "n2")


def test_a_node_that_dies_meanwhile_halts_its_pool_and_comes_back_late(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.standard()
    given_isolating_pool(bench, "training", "n1", "n2", rollout={"readyTimeoutSeconds": 3})
    expect_isolating(bench, training=2)
    bench.change_pool(schedule="share")
    for node in ("n1", "n2"):
        bench.annotate(f"{NODES}/{node}", {TEARDOWN: "start"})
    # Not before the installer has left, which would put the module back.
    expect_reason(bench, "n1", "ModuleRemoval", "render teardown n1")
    bench.annotate(f"{NODES}/n1", REMOVED_BY_HAND)

    bench.set_faults("n1", not_ready=True)
    expect_reason(bench, "n1", "DeadlineExceeded")
    expect_reason(bench, "n2", "RolloutHalted")
    assert bench.node("n2")["metadata"]["labels"][MODE] == "cgpu"
    assert "unschedulable" not in bench.node("n2")["spec"]

    bench.set_faults("n1")
    reboot(bench, "n1")
    bench.annotate(f"{NODES}/n1", {TEARDOWN: "done"})
    expect_shared_for_good(bench, "n1")
