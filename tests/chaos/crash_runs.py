"""A change of a pool's nodes, run again and again; the operator dies at one of its writes."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import orjson

from devcluster.installation import OperatorProcess
from tests.chaos.crash import Crash, Side, Write
from tests.chaos.watching import Watching
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, find_condition
from tests.kit.cluster.fault_proxy import FaultProxy
from tests.kit.cluster.operator_processes import wait_ready
from tests.kit.values.manifests import Json

SETTINGS = {
    "GPUSHARE_RECHECK_SECONDS": "0.2",
    "GPUSHARE_RESOURCE_SETTLE_SECONDS": "0.5",
    # Longer than a busy machine delays a renewal: a process that loses its Lease ends.
    "GPUSHARE_LEASE_DURATION_SECONDS": "10",
    "GPUSHARE_LEASE_RENEW_SECONDS": "1",
}
RUN_SECONDS = 60.0


@dataclass
class CrashRuns(ABC):
    """One change on one cluster; the operator goes on from run to run."""

    settings: ClassVar[Mapping[str, str]] = SETTINGS

    bench: Bench
    proxy: FaultProxy
    watching: Watching
    plugins: dict[str, str] = field(default_factory=dict)
    """The plugin's pods before the change: by name, what a `Write` calls them."""
    restarts: Counter[str] = field(default_factory=Counter)
    """By node, how often its plugin was restarted in the last run."""
    _process: OperatorProcess | None = None
    _starts: int = 0
    """In the last run, processes of the operator."""
    _identities: int = 1
    _mark: int = 0

    @abstractmethod
    def _set_up(self) -> None:
        """Add new nodes and their pool to the empty cluster, where the operator runs."""

    @abstractmethod
    def _change(self) -> None:
        """Change the pool; until its nodes are done."""

    def run(self, crash: Crash | None = None) -> None:
        """One run from fresh nodes, with at most one crash.

        Raises AssertionError where it does not come to its end, and where a crash that was asked
        for did not come about.
        """
        self.restarts = Counter()
        self._reset()
        before = self._count_restarts()
        if crash is not None:
            # A restarted container takes its own Lease back at once; a new Pod waits for it.
            self._identities += crash.side is Side.AFTER
            self.proxy.add(crash.build_rule(self.plugins, self._kill))
        processes = 1 if crash is None else 2
        try:
            self._change()
            self._expect_rest(processes)
        finally:
            self.restarts = self._count_restarts() - before
        assert self._starts == processes, f"{self._starts} processes ran, expected {processes}"

    def read_writes(self) -> list[Write]:
        keys = (Write.parse(each, self.plugins) for each in self.proxy.requests[self._mark :])
        return [key for key in keys if key is not None]

    def _reset(self) -> None:
        self.proxy.remove_all()
        self.bench.empty()
        self._revive()
        self._set_up()
        self._starts, self._mark = 1, len(self.proxy.requests)

    def _expect_done(self, nodes: Sequence[str], mode: str) -> None:
        """Until these nodes have changed; a process that was killed is started again."""
        self._expect(
            f"{list(nodes)} are done",
            lambda: all(is_done(self.bench.node(node), mode) for node in nodes),
        )

    def _expect_rest(self, processes: int) -> None:
        """Until so many processes ran, and the last of them says that the pool is ready. A write
        that the operator is to be killed at, and that never comes, is found here."""

        def probe() -> bool:
            pool = self.bench.pool()
            seen = pool["status"]["observedGeneration"] == pool["metadata"]["generation"]
            ready = find_condition(pool)["status"] == "True"
            return self._starts >= processes and seen and ready

        self._expect(f"the pool is ready, by process {processes}", probe)
        assert self._process is not None
        # It has read everything anew, and would act by now if it found something to do.
        wait_ready(self._process)

    def _expect(self, sentence: str, probe: Callable[[], bool]) -> None:
        def reviving() -> bool:
            self._revive()
            return probe()

        expect(self.bench, sentence, reviving, within_seconds=RUN_SECONDS)

    def _revive(self) -> None:
        if self._process is None or not self._process.alive:
            self._starts += 1
            self._process = self.bench.operators.start(
                "controller",
                identity=f"controller-{self._identities}",
                env=self.settings,
                api_url=self.proxy.url,
                wait=self._process is None,
            )

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    def _count_restarts(self) -> Counter[str]:
        self.watching.catch_up()
        return self.watching.restarts


def is_done(node: Json, mode: str) -> bool:
    """In service, and by its record in the mode that was wanted; NVIDIA's is named by its key."""
    notes = node["metadata"]["annotations"]
    applied = orjson.loads(notes.get("gpushare.io/applied", "{}"))
    in_change = "gpushare.io/change" in notes or node["spec"].get("unschedulable")
    schedule = applied.get("schedule")
    recorded = schedule["key"] if isinstance(schedule, dict) else schedule
    return bool(recorded == mode) and not in_change
