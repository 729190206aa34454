"""What one controller leaves behind for the next: writes still on their way, and what it knew."""

import pytest

from tests.chaos.lease_audit import find_late_writes
from tests.chaos.rollout import BUDGET, MEMBERS, standing_rollout
from tests.integration.outages.fault_scenario import ISOLATION
from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import OURS, AuditTail, Call
from tests.kit.cluster.expect import expect, expect_running, read_change
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.operator_processes import CONTROLLER_LEASE
from tests.kit.values.manifests import build_pod

BY_US = (OURS.encode(),)
WATCHES_NODES = "/nodes[?].*watch"
PLUGIN = "/pods/gpushare-device-plugin-ds"


def place_blocker(bench: Bench, node: str) -> str:
    """A pod that selects the old mode's labels: its node can't change while it lives."""
    selects = {"kubernetes.io/hostname": node, ISOLATION: "true"}
    return bench.create_pod(build_pod(f"on-{node}", selects=selects))


@pytest.mark.parametrize(
    ("method", "path", "codes"),
    [
        pytest.param("PATCH", "/nodes/n1[?]", {409}, id="cordon"),
        pytest.param("DELETE", PLUGIN, {404, 409}, id="restart", marks=pytest.mark.chaos),
    ],
)
def test_a_write_that_arrives_after_a_takeover_is_refused(
    bench: Bench, written: AuditTail, method: str, path: str, codes: set[int]
) -> None:
    with FaultProxy(bench.cluster) as proxy:
        first = bench.operators.start("controller", identity="first", api_url=proxy.url)
        with standing_rollout(bench) as rollout:
            held = proxy.add(Rule(method, path, hold=True))
            rollout.begin()
            held.wait_reached()
            first.kill()
            bench.operators.start("controller", identity="second")
            # The dead one's Lease has to end first.
            rollout.expect_over(within=60)

            held.release()
            calls: list[Call] = []

            def find_late() -> bool:
                calls.extend(written.read(about=BY_US))
                return bool(find_late_writes(calls))

            expect(bench, "the late write has arrived", find_late)
            assert {late.call.code for late in find_late_writes(calls)} <= codes
            assert rollout.is_over()


@pytest.mark.chaos
def test_a_standby_that_heard_nothing_for_a_while_starts_no_change_over_the_budget(
    bench: Bench,
) -> None:
    with FaultProxy(bench.cluster) as proxy:
        first = bench.operators.start("controller", identity="first")
        with standing_rollout(bench) as rollout:
            bench.operators.start("controller", identity="second", api_url=proxy.url, wait=False)
            expect(
                bench,
                "the second has everything listed",
                lambda: (
                    proxy.matching("GET", "/nodes[?].*watch") and proxy.matching("GET", "lease")
                ),
            )
            slow = MEMBERS[-BUDGET:]
            blockers = [place_blocker(bench, node) for node in MEMBERS[:-BUDGET]]
            for pod in blockers:
                expect_running(bench, pod)
            for node in slow:
                bench.set_faults(node, start_delay_seconds=8)
            proxy.silence(WATCHES_NODES)
            rollout.begin()
            expect(
                bench,
                f"{slow} are at it",
                lambda: all(
                    read_change(bench.node(node)).get("phase") == "Restarting" for node in slow
                ),
            )
            for pod in blockers:
                bench.delete_pod(pod)
            first.stop()
            expect(
                bench,
                "the second took over",
                lambda: bench.call("GET", CONTROLLER_LEASE)["spec"]["holderIdentity"] == "second",
            )
            rollout.expect_over(within=60)
