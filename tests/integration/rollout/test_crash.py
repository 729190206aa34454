"""The operator dies at any moment, and another goes on where it was."""

from datetime import UTC, datetime

from devcluster.installation import OperatorProcess
from tests.kit.bench import POOL, POOLS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_step,
    find_condition,
    list_traces,
)
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.replicas import LEASES, measure_hand_over
from tests.kit.cluster.sharing_pools import expect_isolated_from_now_on, given_sharing_pool

REAL_LEASE = {"GPUSHARE_LEASE_DURATION_SECONDS": "10", "GPUSHARE_LEASE_RENEW_SECONDS": "2"}
HAND_OVER_AFTER_CRASH_SECONDS = 15
HAND_OVER_AFTER_STOP_SECONDS = 2
REAL_DRAIN = {"GPUSHARE_DRAIN_SECONDS": "5"}
AT_WORK_SECONDS = 6
"""From the Lease to the first label, on a busy machine."""


def is_active(process: OperatorProcess) -> bool:
    return process.alive and read_metric(process, "gpushare_leader") == 1


def expect_active(bench: Bench, process: OperatorProcess) -> None:
    expect(bench, f"{process.identity} is active", lambda: is_active(process))


def test_after_a_crash_another_controller_takes_over_within_15_seconds(bench: Bench) -> None:
    first = bench.operators.start("run", identity="first", env=REAL_LEASE)
    expect_active(bench, first)
    bench.operators.start("controller", identity="second", env=REAL_LEASE)
    given_sharing_pool(bench, "Professional", "n1")

    with bench.watching(LEASES) as leases:
        killed_at = datetime.now(UTC)
        first.kill()
        bench.add_nodes("n2")
        seconds = measure_hand_over(bench, leases, killed_at, but="first")

    assert seconds < HAND_OVER_AFTER_CRASH_SECONDS
    expect_labels(bench, "n2", {POOL: "training"}, within=AT_WORK_SECONDS)


def test_at_a_stop_another_takes_over_within_2_seconds_though_the_webhook_goes_on(
    bench: Bench,
) -> None:
    first = bench.operators.start("run", identity="first", env={**REAL_LEASE, **REAL_DRAIN})
    expect_active(bench, first)
    second = bench.operators.start("controller", identity="second", env=REAL_LEASE)

    with bench.watching(LEASES) as leases:
        stopped_at = datetime.now(UTC)
        first.stop()
        seconds = measure_hand_over(bench, leases, stopped_at, but="first")
    print(f"hand-over stopped={seconds:.2f}")

    assert seconds < HAND_OVER_AFTER_STOP_SECONDS
    expect_active(bench, second)
    assert first.process.returncode == 0


def test_a_node_that_vanishes_in_its_change_does_not_hold_up_the_others(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2")
    bench.set_faults("n1", plugin_never_ready=True)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Restarting")

    bench.call("DELETE", "/api/v1/nodes/n1")

    expect_pool_ready(bench, nodes=1)
    expect_isolated_from_now_on(bench, ["n2"])


def test_a_pool_that_is_deleted_in_a_flip_leaves_no_node_half_way(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2")
    bench.set_faults("n1", start_delay_seconds=60)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Restarting")

    bench.delete_pool()
    expect(bench, "it leaves", lambda: find_condition(bench.pool())["reason"] == "Releasing")
    bench.set_faults("n1")
    expect_gone(bench, f"{POOLS}/training")

    for node in ("n1", "n2"):
        found = bench.node(node)
        assert found["spec"].get("unschedulable") is None
        assert list_traces(found) == []
    expect_isolated_from_now_on(bench, ["n1"])
    expect_labels(bench, "n2", {"ack.node.gpu.schedule": "share"})
