"""``python -m tests.unit.planner.recorded_decisions``: compare the decisions of two checkouts.

Both play the same random histories. Compared are each pass's decisions with their writes, the time
of the next pass, and each pool's status: all that leaves the planner.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from datetime import datetime
from difflib import unified_diff
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from gpushare.core.planner.decisions import Plan
from gpushare.core.snapshot.cluster import ClusterSnapshot
from tests.kit.histories import simulated_kubelets
from tests.kit.histories.simulated_cluster import Cluster
from tests.kit.histories.simulated_operator import SimulatedOperator
from tests.unit.planner.test_planner_histories import Histories, play_rollouts
from tests.unit.planner.test_wild_histories import EDITIONS, STEPS, WildHistories

_MODULE = "tests.unit.planner.recorded_decisions"
_MOST_SHOWN = 5
_CONTEXT = 3


class _RecordingOperator(SimulatedOperator):
    """A process of the controller that records what it decides."""

    lines: list[str]

    def decide(self, snapshot: ClusterSnapshot, changed: set[str] | None, cluster: Cluster) -> Plan:
        plan = super().decide(snapshot, changed, cluster)
        self.lines.append(f"pass at {cluster.now}, next at {plan.requeue_at}")
        self.lines += [f"release {pool.name}" for pool in plan.release]
        for decision in sorted(plan.decisions, key=lambda each: (each.pool, each.plan.node)):
            each = decision.plan
            shown = f"{decision.pool} {each.node}: {each.state} {each.reason} {each.message}"
            begins = " begins" if each.started else ""
            self.lines.append(f"{shown};{begins} {_show(each.action)}")
        return plan

    def write_statuses(self, cluster: Cluster) -> Cluster:
        after = super().write_statuses(cluster)
        for name, pool in sorted(after.pools.items()):
            if pool.status != cluster.pools[name].status:
                self.lines.append(f"status of {name}: {pool.status.model_dump_json()}")
        return after


class _Recorded(Histories):
    def __init__(self) -> None:
        self.lines: list[str] = []
        super().__init__()

    def play(self, seed: int) -> None:
        """Play the history of `seed`."""
        play_rollouts(self, Random(seed))

    def restart_operator(self) -> None:
        super().restart_operator()
        self.operator = _RecordingOperator(
            may_evict=self.cluster.may_evict, may_tear_down=self.cluster.may_tear_down
        )
        self.operator.lines = self.lines
        self.lines.append("the operator starts")

    def _decide(self, *, is_told: bool = True) -> datetime | None:
        """One pass, without the checks, which take most of a history's time."""
        self.cluster = simulated_kubelets.elapse(self.cluster, 0)
        snapshot, changed = self.operator.observe(self.cluster)
        plan = self.operator.decide(snapshot, changed, self.cluster)
        self.cluster = self.operator.release(plan, self.cluster)
        if is_told:
            self.cluster = self.operator.write_statuses(self.cluster)
        return plan.requeue_at

    def _carry_out(self, node: str) -> None:
        self.cluster = self.operator.carry_out(node, self.cluster)


class _RecordedWild(WildHistories, _Recorded):
    """The same on an untidy cluster."""

    def play(self, seed: int) -> None:
        self.begin_wild(seed, EDITIONS)
        self.live(STEPS)
        self.teardown()


def record(seed: int) -> list[str]:
    """Return the decisions of a history; two of three are wild, the others interrupted rollouts."""
    history = _RecordedWild() if seed % 3 else _Recorded()
    try:
        history.play(seed)
    except AssertionError as error:
        # Where both checkouts break a promise, they still must decide the same.
        history.lines.append(f"broken: {error}")
    return history.lines


def compare(before: Path, first: int, histories: int) -> int:
    """Play the seeds from `first` in both checkouts; print and count the histories that differ."""
    seeds = [str(seed) for seed in range(first, first + histories)]
    processes = [_start(folder, seeds) for folder in (before, Path())]
    differing = []
    for seed, *digests in zip(seeds, *map(_read_lines, processes), strict=True):
        if digests[0] != digests[1]:
            differing.append(seed)
            print(f"{seed} differs", flush=True)
    for seed in differing[:_MOST_SHOWN]:
        old, new = (_read_lines(_start(folder, [seed], "--show")) for folder in (before, Path()))
        sys.stdout.writelines(
            f"{line}\n"
            for line in islice(unified_diff([*old], [*new], n=_CONTEXT, lineterm=""), 60)
        )
    return len(differing)


def _start(folder: Path, seeds: list[str], *flags: str) -> subprocess.Popen[str]:
    # Sets are iterated over in one order.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": "operator:."}
    command = [sys.executable, "-m", _MODULE, *flags, *seeds]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def _read_lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.rstrip("\n")
    assert process.wait() == 0, f"{process.args!r} failed"


def _show(action: Any) -> str:
    if not is_dataclass(action) or isinstance(action, type):
        return "no action"
    return f"{type(action).__name__} {asdict(action)}"


def main(
    seeds: Annotated[list[int] | None, typer.Argument(help="Print what these seeds' are.")] = None,
    before: Annotated[Path | None, typer.Option(help="Compare with this checkout.")] = None,
    first: int = 1,
    histories: int = 5000,
    show: Annotated[bool, typer.Option(help="Print decisions, not their hash.")] = False,
) -> None:
    """Print the decisions of random histories, or compare those of two checkouts."""
    if before is not None:
        raise typer.Exit(bool(compare(before, first, histories)))
    for seed in seeds or ():
        lines = record(seed)
        digest = sha256("\n".join(lines).encode()).hexdigest()
        print("\n".join(lines) if show else f"{seed} {len(lines)} {digest}", flush=True)


if __name__ == "__main__":
    typer.run(main)
