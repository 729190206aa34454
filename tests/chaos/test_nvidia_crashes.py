"""The operator is killed at each write of a change of NVIDIA's configuration, before and after it.

`make test-outages` has some of these moments, `make test-chaos` the others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import pytest

from devcluster import names
from devcluster.nvidia import DISCOVERY, MPS_DAEMONS, NVIDIA_CHART
from tests.chaos.crash import Crash, Side, Write, read_change_record
from tests.chaos.crash_runs import SETTINGS, CrashRuns
from tests.chaos.watching import Watching
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, expect_pool_ready, expect_running
from tests.kit.cluster.fault_proxy import FaultProxy, Request, Rule
from tests.kit.cluster.nvidia_stack import (
    CARDS,
    GPU,
    KEY,
    NAMESPACE,
    add_gpu_nodes,
    ask_for,
    build_nvidia_pool,
    expect_stack_gone,
    nvidia_installed,
    offered,
)

FIRST, BLOCKED = MEMBERS = ("n1", "n2")
"""One is blocked by a pod that must finish first; it does once the other is done."""
REPLICAS = {"whole": 1, "slices-4": 4, "mps-8": 8}
COMPONENTS = {NVIDIA_CHART: "plugin", DISCOVERY: "discovery", MPS_DAEMONS: "MPS daemon"}


@dataclass(frozen=True)
class Change:
    """From one configuration to another; `restarted` are the components that it restarts."""

    begin: str
    end: str
    restarted: tuple[str, ...]

    def list_writes(self) -> Iterator[Write]:
        for node in MEMBERS:
            for step in ("Cordoned", "Labelled", "Restarting", ""):
                yield Write(node, "nodes", "PATCH", step)
            for component in self.restarted:
                yield Write(f"{component} on {node}", "pods", "DELETE", "Restarting")


CHANGES = (
    Change("whole", "slices-4", ("plugin", "discovery")),
    Change("slices-4", "mps-8", ("plugin", "discovery", "MPS daemon")),
)
CRASHES = {
    f"to {change.end}, {crash}": (change, crash)
    for change in CHANGES
    for crash in (Crash(*moment) for moment in product(change.list_writes(), Side))
}
SELECTION = {
    "to slices-4, after DELETE pods of discovery on n1, step Restarting",
    "to mps-8, before DELETE pods of MPS daemon on n2, step Restarting",
}
assert CRASHES.keys() >= SELECTION


@dataclass
class ConfigRuns(CrashRuns):
    """Two nodes go from one configuration to another."""

    settings: ClassVar[Mapping[str, str]] = {**SETTINGS, "GPUSHARE_NVIDIA_NAMESPACE": NAMESPACE}

    change: Change = CHANGES[0]

    def _set_up(self) -> None:
        bench, begin = self.bench, self.change.begin
        expect_stack_gone(bench)
        add_gpu_nodes(bench, *MEMBERS, labels={KEY: begin})
        expect(bench, f"discovery has found {begin}", lambda: self.is_found(begin))
        bench.create_pool(build_nvidia_pool(begin))
        expect_pool_ready(bench, nodes=len(MEMBERS))
        bench.create_pod(ask_for(GPU, "blocker", BLOCKED))
        expect_running(bench, "blocker")
        self.plugins = {}
        self.proxy.add(Rule("PATCH", "/nodes/", where=self._is_early, times=None, status=409))

    def _change(self) -> None:
        bench, end = self.bench, self.change.end
        bench.change_pool(nvidia={"config": end})
        self._expect_done([FIRST], end)
        expect_running(bench, "blocker")
        bench.delete_pod("blocker")
        bench.create_pod(ask_for(GPU, "next", FIRST))
        expect_running(bench, "next")
        self._expect_done(MEMBERS, end)

    def is_found(self, config: str) -> bool:
        """Whether plugin and GPU feature discovery of every node have loaded it."""
        labels = self.bench.labels()
        return all(
            offered(self.bench, node) == CARDS * REPLICAS[config]
            and labels[node].get(names.GPU_REPLICAS) == str(REPLICAS[config])
            for node in MEMBERS
        )

    def _is_early(self, request: Request) -> bool:
        """Whether it records fewer pods than there will be; what it records gets its name here.

        The MPS daemon's comes once GPU feature discovery has obeyed the label, and the operator is
        faster unless it is killed: each run is to make the same writes.
        """
        write, record = Write.parse(request, {}), read_change_record(request.body)
        if write is None or write.step != "Restarting":
            return False
        recorded = [pod["name"] for pod in record["plugins"]]
        components = {pod: COMPONENTS[pod.rpartition("-")[0]] for pod in recorded}
        self.plugins |= {pod: f"{name} on {write.name}" for pod, name in components.items()}
        return {*components.values()} != {*self.change.restarted}


@pytest.fixture(scope="module")
def runs(installed: Bench) -> Iterator[ConfigRuns]:
    bench = installed
    with (
        nvidia_installed(bench, default_key="mps-8"),
        FaultProxy(bench.cluster) as proxy,
        Watching(bench, budget=1) as watching,
    ):
        yield ConfigRuns(bench, proxy, watching)
        bench.clear()


def expect_converged(runs: ConfigRuns, change: Change, crash: Crash | None = None) -> None:
    """Each pod was deleted once, every node has the configuration, and no pod was lost."""
    runs.change = change
    runs.run(crash)
    assert runs.restarts == Counter(dict.fromkeys(MEMBERS, len(change.restarted)))
    runs.watching.expect_clean()
    assert runs.is_found(change.end)
    expect_running(runs.bench, "next")


@pytest.mark.chaos
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.end)
def test_an_undisturbed_change_makes_no_other_write(runs: ConfigRuns, change: Change) -> None:
    expect_converged(runs, change)
    assert {*runs.read_writes()} == {*change.list_writes()}


@pytest.mark.parametrize(
    ("change", "crash"),
    [
        pytest.param(*moment, id=name, marks=() if name in SELECTION else pytest.mark.chaos)
        for name, moment in CRASHES.items()
    ],
)
def test_killed_at_a_write_and_started_again_it_ends_with_the_configuration_loaded(
    runs: ConfigRuns, change: Change, crash: Crash
) -> None:
    expect_converged(runs, change, crash)
