"""``python -m tests.bench.load``: how many pods are lost while a pool's isolation flips.

GPU pods are created all the while. The operator flips the nodes, then the same is done by hand as
the vendor's guide says, on a fresh set of equal nodes, and so on in turns, on one control plane.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from devcluster.cluster import Cluster
from tests.bench.flips import ByHand, ByOperator, Way
from tests.bench.session import own_cluster, run, say
from tests.bench.stream import LOST, Failure, PodStream
from tests.kit.arrange import POOL, expect_isolated_from_now_on
from tests.kit.bench import Bench

_RUN_SECONDS = 1.5
_AROUND_SECONDS = 5
"""Pods of so many seconds end before the flip begins, and after it has ended."""
_PATIENCE_SECONDS = 120
_SLOWEST_SHARE = 0.9
_HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Trial:
    """One flip of all nodes under load."""

    nodes: int
    flip_seconds: float
    pods: int
    per_second: float
    """Pods that were created a second, measured."""
    failures: Sequence[Failure]

    @property
    def lost(self) -> list[Failure]:
        """The pods that came when their node's plugin was away."""
        return [failure for failure in self.failures if failure.reason == LOST]


@dataclass(frozen=True)
class Figures:
    """What a whole run found."""

    per_second: float
    by_operator: Sequence[Trial]
    by_hand: Sequence[Trial]

    def summary(self) -> str:
        """One line, for machines too."""
        ways = (("operator", self.by_operator), ("hand", self.by_hand))
        counts = (
            f"pods_by_{way}={sum(trial.pods for trial in trials)} "
            f"lost_by_{way}={sum(len(trial.lost) for trial in trials)}"
            for way, trials in ways
        )
        return " ".join(("bench-load", *counts))

    def misses(self) -> Iterator[str]:
        """A sentence for everything that is not as it must be."""
        if lost := sum(len(trial.lost) for trial in self.by_operator):
            yield f"{lost} pods were lost while the operator flipped; none may be"
        if not any(trial.lost for trial in self.by_hand):
            yield "no pod was lost by hand either, so the load shows nothing; make it heavier"
        for trial in (*self.by_operator, *self.by_hand):
            if others := [failure for failure in trial.failures if failure not in trial.lost]:
                yield f"{len(others)} pods failed for another reason, at first {others[0]}"
            if trial.per_second < self.per_second * _SLOWEST_SHARE:
                yield (
                    f"only {trial.per_second:.1f} pods a second were created, not "
                    f"{self.per_second:g}: the machine is too slow or has other work"
                )


@app.command()
def bench(
    nodes: Annotated[int, typer.Option(min=2, help="Nodes of the pool.")] = 6,
    rounds: Annotated[int, typer.Option(min=1, help="Flips each way.")] = 3,
    per_second: Annotated[float, typer.Option(min=1, help="Pods created a second.")] = 20,
) -> None:
    """Measure, print each flip and a summary; fail where the operator lost a pod."""
    with own_cluster("bench-load") as cluster:
        figures = _measure(cluster, nodes, rounds, per_second)
    print(figures.summary())
    misses = list(figures.misses())
    for miss in misses:
        print(f"bench-load: {miss}", file=sys.stderr)
    sys.exit(1 if misses else 0)


def _measure(cluster: Cluster, nodes: int, rounds: int, per_second: float) -> Figures:
    place = Bench(cluster)
    place.operators.installation.apply()
    # The pods select their pool themselves, both ways; no webhook runs that could route them.
    place.call("DELETE", f"{_HOOKS}/gpushare-webhook")
    members = [f"n{number}" for number in range(1, nodes + 1)]
    by_operator: list[Trial] = []
    by_hand: list[Trial] = []
    for number in range(1, rounds + 1):
        operator = ByOperator(place, members)
        by_operator.append(_try(place, operator, members, per_second))
        say(f"round {number}, operator: {show_trial(by_operator[-1])}")
        for line in _trace(operator, by_operator[-1].failures):
            print(f"    {line}")
        place.clear()
        by_hand.append(_try(place, ByHand(place, members), members, per_second))
        say(f"round {number}, by hand:  {show_trial(by_hand[-1])}")
        place.clear()
    return Figures(per_second, by_operator, by_hand)


def _try(place: Bench, way: Way, members: Sequence[str], per_second: float) -> Trial:
    """One flip under load; every pod of the stream has ended when it returns."""
    way.prepare()
    stream = PodStream(place, {POOL: "training"}, per_second, _RUN_SECONDS)
    around = round(per_second * _AROUND_SECONDS)
    with stream.flowing(drain_seconds=_PATIENCE_SECONDS):
        stream.until_more_ended(around, within_seconds=_PATIENCE_SECONDS)
        seconds = way.flip()
        stream.until_more_ended(around, within_seconds=_PATIENCE_SECONDS)
    expect_isolated_from_now_on(place, members)
    return Trial(
        nodes=len(members),
        flip_seconds=seconds,
        pods=stream.created,
        per_second=stream.created / stream.seconds,
        failures=tuple(stream.failures),
    )


def show_trial(trial: Trial) -> str:
    """A line of the table of trials."""
    return (
        f"{trial.nodes} nodes in {trial.flip_seconds:5.1f} s   {trial.pods:5} pods at "
        f"{trial.per_second:4.1f}/s   {len(trial.lost):3} lost"
    )


def _trace(way: ByOperator, failures: Sequence[Failure]) -> Iterator[str]:
    """The pods that failed, and what the operator did on their nodes."""
    for failure in failures:
        yield str(failure)
    for node in sorted({failure.node for failure in failures}):
        yield from way.trace(node)


if __name__ == "__main__":
    run(app)
