"""Other controllers that begin their work on a node while the operator changes it.

They do what is read in their sources: NVIDIA's upgrade controller (k8s-operator-libs) remembers
that it found a node cordoned; its driver-manager (k8s-driver-manager, issue 212) and the Node
Maintenance Operator uncordon at the end whatever they find, and so does kured if it came first.
"""

import time
from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.kit.bench import MODE, NODES, POOL, Bench, Json
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_pool_ready,
    expect_quiet,
    expect_reason,
    expect_step,
    list_traces,
    read_change,
    read_events,
)
from tests.kit.cluster.sharing_pools import (
    expect_each_restarted_once,
    expect_isolated_from_now_on,
    given_sharing_pool,
    plugin_names,
)

STATE = "nvidia.com/gpu-driver-upgrade-state"
WAS_CORDONED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
DEPLOY = "nvidia.com/gpu.deploy.device-plugin"
KURED = "weave.works/kured-reboot-in-progress"
DRAIN = {"key": "medik8s.io/drain", "effect": "NoSchedule"}


@dataclass
class UpgradeController:
    """NVIDIA's: cordons, and uncordons what was not cordoned before."""

    bench: Bench
    node: str = "n1"

    def begin(self) -> None:
        if is_cordoned(self.bench.node(self.node)):
            self.bench.annotate(f"{NODES}/{self.node}", {WAS_CORDONED: "true"})
        for state in ("upgrade-required", "cordon-required"):
            self.bench.label(self.node, {STATE: state})
        self.bench.cordon(self.node)
        self.bench.label(self.node, {STATE: "drain-required"})

    def end(self) -> None:
        self.bench.label(self.node, {STATE: "uncordon-required"})
        annotations = self.bench.node(self.node)["metadata"]["annotations"]
        if annotations.get(WAS_CORDONED) != "true":
            self.bench.cordon(self.node, on=False)
        self.bench.label(self.node, {STATE: "upgrade-done"})
        self.bench.annotate(f"{NODES}/{self.node}", {WAS_CORDONED: None})


@dataclass
class DriverManager:
    """NVIDIA's: uncordons whatever it finds, and then lets its components come back."""

    bench: Bench
    node: str = "n1"

    def begin(self) -> None:
        self.bench.label(self.node, {DEPLOY: "paused-for-driver-upgrade"})
        self.bench.cordon(self.node)

    def end(self) -> None:
        self.bench.cordon(self.node, on=False)
        self.bench.label(self.node, {DEPLOY: "true"})


@dataclass
class Kured:
    """One that found the node in service, before it was cordoned by the operator."""

    bench: Bench
    node: str = "n1"

    def begin(self) -> None:
        self.bench.annotate(f"{NODES}/{self.node}", {KURED: "2026-01-02T03:04:05Z"})
        self.bench.cordon(self.node)

    def end(self) -> None:
        self.bench.cordon(self.node, on=False)
        self.bench.annotate(f"{NODES}/{self.node}", {KURED: None})


@dataclass
class NodeMaintenance:
    """Medik8s': a taint, which goes at one moment with the cordon here."""

    bench: Bench
    node: str = "n1"

    def begin(self) -> None:
        self._patch([DRAIN], unschedulable=True)

    def end(self) -> None:
        self._patch(None, unschedulable=None)

    def _patch(self, taints: list[Json] | None, *, unschedulable: bool | None) -> None:
        spec = {"taints": taints, "unschedulable": unschedulable}
        self.bench.call("PATCH", f"{NODES}/{self.node}", {"spec": spec})


Controller = UpgradeController | DriverManager | Kured | NodeMaintenance


def given_restarting(bench: Bench, controller: Controller, timeout_seconds: int) -> None:
    """Node `n1` is in its change, its plugin on the way back, and the controller begins."""
    mark = bench.audit.mark()
    given_sharing_pool(
        bench, "Professional", "n1", rollout={"readyTimeoutSeconds": timeout_seconds}
    )
    bench.set_faults("n1", start_delay_seconds=3)
    bench.change_pool(schedule="cgpu")
    expect(bench, "the plugin was deleted", lambda: bench.audit.our_deletions(mark))
    controller.begin()


def is_cordoned(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable"))


@pytest.mark.parametrize("kind", [UpgradeController, DriverManager, Kured, NodeMaintenance])
def test_a_node_under_anothers_maintenance_is_given_back_when_both_are_done(
    bench: Bench, kind: type[Controller]
) -> None:
    controller, timeout_seconds = kind(bench), 15
    mark = bench.audit.mark()
    given_restarting(bench, controller, timeout_seconds)
    begun = time.monotonic()
    told = expect_reason(bench, "n1", "UnderMaintenance")["message"]
    assert "at work on the node" in told
    assert "deadline" not in told
    # Longer than the change may take.
    expect(bench, "it works", lambda: time.monotonic() > begun + timeout_seconds + 3)
    expect_quiet(bench, "nothing is written", lambda: bench.node("n1")["metadata"])
    assert is_cordoned(bench.node("n1"))
    quiet = bench.audit.mark()

    with bench.watching() as seen:
        controller.end()
        expect_pool_ready(bench, nodes=1)
    expect_isolated_from_now_on(bench, ["n1"])
    assert len(bench.audit.our_deletions(mark)) == 1
    assert bench.audit.our_deletions(quiet) == []
    # Uncordoned by the other at most once, and then by the operator.
    ends = [old and not new for old, new in pairwise(map(is_cordoned, seen.history))].count(True)
    events = read_events(bench, bench.node("n1"), "CordonedAgain")
    assert (ends, len(events)) == ((1, 0) if kind is UpgradeController else (2, 1))
    assert not read_change(bench.node("n1"))


@pytest.mark.parametrize("kind", [UpgradeController, DriverManager, NodeMaintenance])
def test_a_node_that_is_only_cordoned_gets_no_label_before_the_maintenance_is_over(
    bench: Bench, kind: type[Controller]
) -> None:
    bench.operators.start(env={"GPUSHARE_RECHECK_SECONDS": "4"})
    given_sharing_pool(bench, "Professional", "n1")
    old, mark, controller = plugin_names(bench), bench.audit.mark(), kind(bench)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Cordoned")
    controller.begin()
    expect_reason(bench, "n1", "UnderMaintenance")
    expect_quiet(bench, "nothing is written", lambda: bench.node("n1")["metadata"])
    assert bench.labels()["n1"][MODE] == "share"
    assert is_cordoned(bench.node("n1"))

    with bench.watching() as seen:
        controller.end()
        expect_pool_ready(bench, nodes=1)
    assert all(
        is_cordoned(node)
        for node in seen.history
        if node["metadata"]["labels"][MODE] == "cgpu" and read_change(node)
    )
    expect_each_restarted_once(bench, old, mark)


def test_without_maintenance_a_user_who_uncordons_before_the_labels_wins(bench: Bench) -> None:
    bench.operators.start(env={"GPUSHARE_RECHECK_SECONDS": "4"})
    given_sharing_pool(bench, "Professional", "n1")
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Cordoned")
    bench.cordon("n1", on=False)
    expect_step(bench, "n1", "Deferred")
    assert not is_cordoned(bench.node("n1"))


def test_a_deleted_pool_gives_its_node_back_after_the_maintenance(bench: Bench) -> None:
    bench.operators.start(env={"GPUSHARE_RECHECK_SECONDS": "4"})
    given_sharing_pool(bench, "Professional", "n1")
    controller = UpgradeController(bench)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "n1", "Cordoned")
    controller.begin()
    expect_reason(bench, "n1", "UnderMaintenance")
    bench.delete_pool()
    expect_reason(bench, "n1", "UnderMaintenance")
    expect_quiet(bench, "nothing is written", lambda: bench.node("n1")["metadata"])
    assert is_cordoned(bench.node("n1"))

    controller.end()
    expect(bench, "it is back", lambda: not is_cordoned(bench.node("n1")))
    expect_gone(bench, "/apis/gpushare.io/v1alpha1/gpusharepools/training")
    assert list_traces(bench.node("n1")) == []
    assert bench.labels()["n1"][POOL] == "training"
