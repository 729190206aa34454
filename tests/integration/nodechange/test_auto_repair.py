"""ACK's repair of a node in the middle of a change: cordon, taint, drain, reboot, uncordon.

By the vendor's page on node auto repair. It leaves no sign by which it could be told from a user.
"""

from dataclasses import dataclass
from typing import Any

from devcluster.nodes import reboot_node
from tests.kit.bench import MODE, NODES, PODS, Bench, Json
from tests.kit.cluster.expect import (
    expect,
    expect_pool_ready,
    expect_reason,
    expect_running,
    expect_step,
    read_change,
    read_events,
)
from tests.kit.cluster.sharing_pools import (
    expect_isolated_from_now_on,
    given_sharing_pool,
    place_pod,
)

TAINT = {"key": "repair.example.com/faulty", "effect": "NoSchedule"}
"""The vendor's page names no key."""


@dataclass
class AutoRepair:
    bench: Bench
    node: str = "n1"

    def begin(self) -> None:
        """Up to the reboot: the node is away."""
        self.bench.cordon(self.node)
        self._taint(TAINT)
        for pod in self.bench.pods():
            if pod["spec"].get("nodeName") == self.node:
                self.bench.call("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
        self.bench.set_faults(self.node, not_ready=True)
        self._expect_ready("False")
        reboot_node(self.bench.cluster, self.node)

    def end(self, **faults: Any) -> None:
        """The node is back, and the repair uncordons it."""
        self.bench.set_faults(self.node, **faults)
        self._expect_ready("True")
        self._taint(None)
        self.bench.cordon(self.node, on=False)

    def _taint(self, taint: Json | None) -> None:
        kept = [
            each
            for each in self.bench.node(self.node)["spec"].get("taints", [])
            if each["key"] != TAINT["key"]
        ]
        taints = [*kept, taint] if taint else kept
        self.bench.call("PATCH", f"{NODES}/{self.node}", {"spec": {"taints": taints}})

    def _expect_ready(self, status: str) -> None:
        def is_so() -> bool:
            conditions = self.bench.node(self.node)["status"]["conditions"]
            return ("Ready", status) in [(each["type"], each["status"]) for each in conditions]

        expect(self.bench, f"{self.node} has Ready={status}", is_so)


def is_cordoned(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable"))


def expect_in_service(bench: Bench, mode: str) -> None:
    """The node is in the mode, verified, and pods run there."""
    expect_pool_ready(bench, nodes=1)
    expect(bench, "n1 is in service", lambda: not is_cordoned(bench.node("n1")))
    assert bench.labels()["n1"][MODE] == mode
    assert not read_change(bench.node("n1"))
    if mode == "cgpu":
        expect_isolated_from_now_on(bench, ["n1"])
    else:
        expect_running(bench, place_pod(bench, "after", "n1"))


def test_a_node_at_rest_is_repaired_and_nothing_is_written_or_restarted(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    repair, mark = AutoRepair(bench), bench.audit.mark()
    repair.begin()
    repair.end()
    expect_in_service(bench, "share")
    assert bench.audit.our_deletions(mark) == []
    assert read_events(bench, bench.node("n1"), "CordonedAgain") == []


def test_a_change_that_waits_for_pods_begins_once_the_repair_has_drained_them(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    expect_running(bench, place_pod(bench, "train", "n1"))
    bench.change_pool(schedule="cgpu")
    expect_reason(bench, "n1", "WorkloadsPresent")
    repair = AutoRepair(bench)
    assert bench.labels()["n1"][MODE] == "share"
    repair.begin()
    repair.end()
    expect_in_service(bench, "cgpu")


def test_a_node_that_is_only_cordoned_is_let_go_and_changed_after_the_repair(
    bench: Bench,
) -> None:
    bench.operators.start(env={"GPUSHARE_RECHECK_SECONDS": "4"})
    given_sharing_pool(bench, "Professional", "n1")
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Cordoned")
    repair = AutoRepair(bench)
    repair.begin()
    expect_reason(bench, "n1", "NodeNotReady")
    assert bench.labels()["n1"][MODE] == "share"
    repair.end()
    expect_in_service(bench, "cgpu")


def test_after_the_labels_the_repairs_uncordon_is_undone_until_the_plugin_is_back(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    mark = bench.audit.mark()
    bench.set_faults("n1", start_delay_seconds=600)
    bench.change_pool(schedule="cgpu")
    expect(bench, "the plugin was deleted", lambda: bench.audit.our_deletions(mark))
    repair = AutoRepair(bench)
    repair.begin()
    repair.end(start_delay_seconds=600)
    expect(
        bench,
        "the uncordon is undone, and told",
        lambda: read_events(bench, bench.node("n1"), "CordonedAgain"),
    )
    bench.set_faults("n1")
    expect_in_service(bench, "cgpu")


def test_a_failed_node_stays_cordoned_whatever_the_repair_uncordons(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", rollout={"readyTimeoutSeconds": 15})
    bench.set_faults("n1", start_delay_seconds=600)
    bench.change_pool(schedule="cgpu")
    expect_reason(bench, "n1", "DeadlineExceeded")
    repair = AutoRepair(bench)
    repair.begin()
    bench.set_faults("n1", start_delay_seconds=600)
    bench.cordon("n1", on=False)
    expect(bench, "it is cordoned again", lambda: is_cordoned(bench.node("n1")))
    repair.end()
    expect_in_service(bench, "cgpu")
