"""How the device plugin comes back: with another label, without cards, after a reboot."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from devcluster.installation import NAMESPACE
from tests.kit.bench import POOL, SYSTEM_PODS
from tests.kit.cluster.expect import expect, expect_offered, expect_reason
from tests.kit.nodebench import CARD_GIB, CARDS, NodeBench, expect_shared, expect_truth, given_pool

DISABLED = "cgpu.disable.isolation"
CONTROLLER = "deployment/gpushare-controller"
RESTART_SECONDS = 15
"""From a controller's start to a plugin's restart: a Lease, the cordon, the second look."""


@contextmanager
def without_controller(bench: NodeBench) -> Iterator[None]:
    scale_controller(bench, 0)
    try:
        yield
    finally:
        scale_controller(bench, 1)


def scale_controller(bench: NodeBench, replicas: int) -> None:
    """Have so many controllers, and wait until they are ready, and the webhooks in them."""
    options = (CONTROLLER, f"--namespace={NAMESPACE}")
    bench.cluster.kubectl("scale", *options, f"--replicas={replicas}")

    def probe() -> bool:
        ready = [
            each["status"] == "True"
            for pod in bench.release.pods("controller", leaving=True)
            for each in pod["status"].get("conditions", [])
            if each["type"] == "Ready"
        ]
        return ready == [True] * replicas

    expect(bench, f"{replicas} controllers run", probe)


def count_readings(bench: NodeBench) -> int:
    """How often the plugin has read its label since it started."""
    return bench.host.read_pod_log(bench.plugin()).count("read label")


def expect_built_again(bench: NodeBench, times: int) -> None:
    """Until the plugin's process has built it once more than `times`, and it is registered."""
    expect(bench, "the plugin is built anew", lambda: count_readings(bench) == times + 1)


@pytest.mark.parametrize("how", ["kubelet", pytest.param("SIGHUP", marks=pytest.mark.long)])
def test_of_a_label_that_was_read_while_no_controller_ran_nothing_false_is_claimed(
    bench: NodeBench, how: str
) -> None:
    given_pool(bench, "Basic")
    plugin, times = bench.plugin()["metadata"]["uid"], count_readings(bench)
    node, wanted = bench.host.name, bench.pool()["spec"]["schedule"]
    with without_controller(bench):
        bench.label(node, {DISABLED: "true" if wanted == "cgpu" else "false"})
        if how == "SIGHUP":
            bench.signal_plugin("HUP")
        else:
            bench.restart_kubelet()
        expect_built_again(bench, times)
        expect_offered(bench, node, CARDS * CARD_GIB)
        meanwhile = bench.run_pod("meanwhile", selects={POOL: "training"})

    expect(
        bench,
        "the plugin is restarted",
        lambda: bench.has_other_plugin(plugin),
        within_seconds=RESTART_SECONDS,
    )
    expect_shared(bench)
    late = bench.run_pod("late")
    assert bench.is_held(late) == (wanted == "cgpu") != bench.is_held(meanwhile)
    expect_truth(bench, may_not_know=True)


def test_a_node_whose_plugin_comes_back_without_cards_is_not_ready(bench: NodeBench) -> None:
    given_pool(bench, "Basic")
    schedule = "share" if bench.pool()["spec"]["schedule"] == "cgpu" else "cgpu"
    bench.take_cards()

    bench.change_pool(schedule=schedule)

    expect_offered(bench, bench.host.name, 0)
    expect_reason(bench, bench.host.name, "ResourceNotReady")
    assert bench.node(bench.host.name)["spec"].get("unschedulable") is True
    bench.take_cards(away=False)
    bench.call("DELETE", f"{SYSTEM_PODS}/{bench.plugin()['metadata']['name']}")
    expect_shared(bench)
    assert bench.is_held(bench.run_pod("late")) == (schedule == "cgpu")
    expect_truth(bench)
