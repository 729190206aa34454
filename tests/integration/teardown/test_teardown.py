"""Isolation that shall go for good, by hand: the node says what it waits for, to the end."""

from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, expect_running, is_isolated
from tests.kit.cluster.node_teardown import (
    MODE,
    annotate_teardown,
    expect_event,
    expect_isolating,
    expect_sample,
    expect_shared_for_good,
    given_isolating_pool,
    has_module,
    reboot,
    remove_module,
)
from tests.kit.cluster.sharing_pools import place_pod


def test_a_node_is_torn_down_by_a_person_and_another_is_left_alone(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.standard()
    given_isolating_pool(bench, "training", "n1", "n2")
    expect_isolating(bench, training=2)
    bench.change_pool(schedule="share")
    expect_sample(bench, "training", "n1", "RequiresTeardown", "gpushare.io/teardown=start")

    annotate_teardown(bench, "n1", "start")
    expect_sample(bench, "training", "n1", "ModuleRemoval", "render teardown n1")
    node = bench.node("n1")
    assert node["metadata"]["labels"][MODE] == "share"
    assert node["spec"]["unschedulable"]
    expect_event(bench, "n1", "ModuleRemoval", "annotate node n1 gpushare.io/teardown=done")
    expect(bench, "no installer is left", lambda: "n1" not in bench.plugins("cgpu-installer"))

    remove_module(bench, "n1")
    reboot(bench, "n1")
    expect_sample(bench, "training", "n1", "ModuleUnverified")
    assert bench.node("n1")["spec"]["unschedulable"]
    annotate_teardown(bench, "n1", "done")
    expect_shared_for_good(bench, "n1")

    pod = expect_running(bench, place_pod(bench, "after", "n1"))
    assert not is_isolated(pod)
    expect_sample(bench, "training", "n2", "RequiresTeardown")
    assert bench.node("n2")["metadata"]["labels"][MODE] == "cgpu"
    assert has_module(bench, "n2")


def test_a_node_that_dies_meanwhile_halts_its_pool_and_comes_back_late(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.standard()
    given_isolating_pool(bench, "training", "n1", "n2", rollout={"readyTimeoutSeconds": 3})
    expect_isolating(bench, training=2)
    bench.change_pool(schedule="share")
    for node in ("n1", "n2"):
        annotate_teardown(bench, node, "start")
    # Not before the installer has left, which would put the module back.
    expect_sample(bench, "training", "n1", "ModuleRemoval", "render teardown n1")
    remove_module(bench, "n1")

    bench.set_faults("n1", not_ready=True)
    expect_sample(bench, "training", "n1", "DeadlineExceeded")
    expect_sample(bench, "training", "n2", "RolloutHalted")
    assert bench.node("n2")["metadata"]["labels"][MODE] == "cgpu"
    assert "unschedulable" not in bench.node("n2")["spec"]

    bench.set_faults("n1")
    reboot(bench, "n1")
    annotate_teardown(bench, "n1", "done")
    expect_shared_for_good(bench, "n1")
