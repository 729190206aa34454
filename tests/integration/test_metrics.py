"""What the controller's metrics say of a real cluster, and that they follow it."""

import pytest

from devcluster.installation import OperatorProcess
from tests.kit.arrange import given_sharing_pool
from tests.kit.bench import Bench
from tests.kit.builders import build_pod, build_workload
from tests.kit.expect import expect, expect_pool_ready
from tests.kit.operator import fetch, read_metric

GIB = 2**30
POOL = "gpushare.io/pool"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def controller(bench: Bench) -> OperatorProcess:
    return bench.operators.start("run", env={"GPUSHARE_PER_NODE_METRICS": "true"})


def expect_metric(
    bench: Bench, process: OperatorProcess, value: float, name: str, **labels: str
) -> None:
    expect(
        bench,
        f"{name}{labels} is {value:g}",
        lambda: read_metric(process, f"gpushare_{name}", **labels) == value,
    )


def test_memory_is_told_of_the_pool_the_application_and_the_card_alike(
    bench: Bench, controller: OperatorProcess
) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    pod = build_pod("web", gib=4, selects={POOL: "training"})
    bench.call("POST", DEPLOYMENTS, build_workload("Deployment", "web", replicas=2, pod=pod))

    expect_metric(bench, controller, 8 * GIB, "pool_memory_allocated_bytes", pool="training")
    expect_metric(bench, controller, 15 * GIB, "pool_memory_bytes", pool="training")
    expect_metric(
        bench, controller, 8 * GIB, "application_memory_allocated_bytes",
        pool="training", namespace="default", kind="Deployment", workload="web",
    )  # fmt: skip
    expect_metric(bench, controller, 8 * GIB, "card_memory_allocated_bytes", node="n1", card="0")
    expect_metric(bench, controller, 1, "node_info", pool="training", node="n1", state="ready")


def test_a_change_is_counted_by_how_it_ended_and_so_is_its_restart(
    bench: Bench, controller: OperatorProcess
) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2")
    # Nodes that join change their mode as well.
    expect_metric(bench, controller, 2, "changes_total", pool="training", outcome="completed")
    before = read_metric(controller, "gpushare_plugin_restarts_total", pool="training")
    bench.change_pool(schedule="cgpu")
    expect_pool_ready(bench, nodes=2)

    expect_metric(bench, controller, 4, "changes_total", pool="training", outcome="completed")
    restarts = read_metric(controller, "gpushare_plugin_restarts_total", pool="training")
    assert restarts == before + 2
    assert read_metric(controller, "gpushare_change_duration_seconds_count") == 4


def test_a_label_that_is_put_back_is_a_flip_and_a_fight_a_conflict(
    bench: Bench, controller: OperatorProcess
) -> None:
    given_sharing_pool(bench, "Professional", "n1", placement="binpack")
    key = "ack.node.gpu.placement"
    for flips in (1, 2):
        bench.label("n1", {key: "spread"})
        expect_metric(bench, controller, flips, "label_flips_total", pool="training")
    bench.label("n1", {key: "spread"})

    expect_metric(bench, controller, 1, "label_conflicts_total", pool="training")
    expect_metric(bench, controller, 1, "pool_conflicting_nodes", pool="training")


def test_a_pool_that_is_gone_is_told_of_no_more(bench: Bench, controller: OperatorProcess) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    expect_metric(bench, controller, 1, "pool_nodes", pool="training", state="ready")
    bench.delete_pool()

    expect(
        bench,
        "no gauge speaks of it",
        lambda: "gpushare_pool_nodes{" not in fetch(controller, "/metrics"),
    )
