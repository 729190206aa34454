"""Kill the operator at each of its writes, before and after it, and see that nothing differs.

`python -m tests.chaos.matrix [--shards N] [--only TEXT]` learns the writes of an undisturbed run
of the scenario, then runs it twice for each of them. The last line sums up; the exit status is 0
where every run ended as the undisturbed one did and the watcher found nothing.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError
from tests.chaos.crash import Crash, Side, Write
from tests.chaos.flip import MEMBERS, Flip, standing
from tests.kit.bench import Bench
from tests.kit.cluster.object_diff import find_differences
from tests.kit.cluster.operator_processes import KUBELET_PERIOD_SECONDS

Json = dict[str, Any]

_SHOWN = 600


@dataclass(frozen=True)
class Reference:
    """The undisturbed run: what it writes, and how it ends."""

    writes: tuple[Write, ...]
    nodes: dict[str, Json]

    @property
    def crashes(self) -> list[Crash]:
        """Every write, on both sides."""
        return [Crash(write, side) for write, side in product(self.writes, Side)]


@dataclass
class Result:
    """What came of one run with a crash."""

    crash: Crash
    problem: str = ""
    """Why it did not end as the undisturbed run did; empty: it did."""
    extra_restarts: int = 0
    seconds: float = 0.0


@dataclass
class Tally:
    """All runs so far, and what the watchers found in them."""

    total: int
    results: list[Result] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.results.append(result)
        outcome = result.problem[:_SHOWN] or "as undisturbed"
        done = f"{len(self.results)}/{self.total}"
        print(f"{done:>6} {result.crash}: {outcome} ({result.seconds:.1f} s)", flush=True)

    @property
    def converged(self) -> int:
        return sum(not result.problem for result in self.results)

    @property
    def is_clean(self) -> bool:
        return self.converged == self.total > 0 and not self.violations

    def sum_up(self, writes: int) -> str:
        extra = sum(result.extra_restarts for result in self.results)
        return (
            f"crash-matrix writes={writes} crashes={len(self.results)} "
            f"converged={self.converged} extra_restarts={extra} "
            f"budget_violations={sum(' P3: ' in each for each in self.violations)}"
        )


def learn(flip: Flip) -> Reference:
    """The undisturbed run. Raises AssertionError where it is not as a run should be."""
    nodes = flip.run()
    expect_each_restarted_once(flip)
    return Reference(tuple(sorted(set(flip.read_writes()))), nodes)


def try_out(flip: Flip, crash: Crash, reference: Reference) -> Result:
    """One run with a crash, compared with the undisturbed one."""
    began, result = time.monotonic(), Result(crash)
    try:
        expect_as_undisturbed(flip, crash, reference)
    except (AssertionError, DevclusterError) as error:
        result.problem = str(error)
        result.extra_restarts = sum((flip.restarts - Counter(MEMBERS)).values())
    result.seconds = time.monotonic() - began
    return result


def expect_as_undisturbed(flip: Flip, crash: Crash, reference: Reference) -> None:
    """Run with a crash; each plugin is restarted once, and all nodes end as without it."""
    nodes = flip.run(crash)
    expect_each_restarted_once(flip)
    expect_same(reference.nodes, nodes)


def expect_each_restarted_once(flip: Flip) -> None:
    """In the last run each member's plugin was."""
    assert flip.restarts == Counter(MEMBERS), f"plugins were restarted: {dict(flip.restarts)}"


def expect_same(undisturbed: dict[str, Json], nodes: dict[str, Json]) -> None:
    """Every node ended as it does in the undisturbed run."""
    for name, before in undisturbed.items():
        differences = find_differences(before, nodes[name])
        assert not differences, f"{name} is not as undisturbed: {differences}"


def run(shards: int, only: str) -> None:
    """Run the matrix on so many clusters side by side; SystemExit where it is not clean."""
    with ExitStack() as stack, ThreadPoolExecutor(shards) as pool:
        flips = [stack.enter_context(own_cluster(shard)) for shard in range(shards)]
        reference, *others = pool.map(learn, flips)
        for other in others:
            assert other.writes == reference.writes, (other.writes, reference.writes)
            expect_same(reference.nodes, other.nodes)
        print(f"an undisturbed run makes {len(reference.writes)} writes", flush=True)
        left: SimpleQueue[Crash] = SimpleQueue()
        crashes = [each for each in reference.crashes if only in str(each)]
        for each in crashes:
            left.put(each)
        tally = Tally(len(crashes))

        def work(flip: Flip) -> None:
            while True:
                try:
                    crash = left.get_nowait()
                except Empty:
                    return
                tally.add(try_out(flip, crash, reference))

        list(pool.map(work, flips))
        for flip in flips:
            flip.watching.catch_up()
            tally.violations += flip.watching.violations
        for violation in tally.violations:
            print(violation)
        print(tally.sum_up(len(reference.writes)), flush=True)
        if not tally.is_clean:
            sys.exit(1)


@contextmanager
def own_cluster(shard: int) -> Iterator[Flip]:
    """The scenario on a cluster that is there for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix=f"gpushare-matrix-{shard}-") as folder:
        cluster = Cluster(
            f"matrix-{os.getpid()}-{shard}",
            Path(folder),
            kubelet_period_seconds=KUBELET_PERIOD_SECONDS,
        )
        cluster.up()
        try:
            bench = Bench(cluster)
            bench.operators.installation.apply()
            with standing(bench) as flip:
                yield flip
        finally:
            cluster.down()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=2, help="clusters side by side")
    parser.add_argument("--only", default="", help="crashes whose name contains this")
    given = parser.parse_args()
    run(given.shards, given.only)


if __name__ == "__main__":
    main()
