"""``python -m bench.load``: the pods that a flip loses, by the operator and by hand in turns."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from bench.core.figure import Figure, report_figures
from bench.core.session import own_cluster, run, say
from bench.core.stream import LOST, PodStream
from bench.core.ways import WAYS
from devcluster.cluster import Cluster
from tests.kit.bench import POOL, Bench
from tests.kit.cluster.sharing_pools import expect_isolated_from_now_on

_RUN_SECONDS = 1.5
_AROUND_SECONDS = 5
"""Time before the flip and after it during which pods are created."""
_SLOWEST_SHARE = 0.9
FIGURES = (
    Figure("pods_by_operator", "pods created", form="d"),
    Figure("lost_by_operator", "pods lost", limit=0, form="d"),
    Figure("pods_by_hand", "pods created", form="d"),
    Figure("lost_by_hand", "pods lost", form="d"),
)
_HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@dataclass(frozen=True)
class Trial:
    """One flip of all nodes under load."""

    way: str
    flip_seconds: float
    pods: int
    per_second: float
    """Measured rate of created pods."""
    failures: Counter[str]
    """Numbers of pods that never ran, by reason."""

    @property
    def lost(self) -> int:
        """Number of pods that were bound while their node's plugin was away."""
        return self.failures[LOST]


def find_values(trials: Sequence[Trial]) -> dict[str, float]:
    """Find the sums of each way."""
    values: dict[str, float] = {}
    for way in WAYS:
        of_it = [trial for trial in trials if trial.way == way]
        values[f"pods_by_{way}"] = sum(trial.pods for trial in of_it)
        values[f"lost_by_{way}"] = sum(trial.lost for trial in of_it)
    return values


def find_problems(trials: Sequence[Trial], per_second: float) -> Iterator[str]:
    """Find why a run is not valid."""
    if not any(trial.lost for trial in trials if trial.way == "hand"):
        yield "no pod was lost by hand either, so the load shows nothing; make it heavier"
    for trial in trials:
        if others := trial.failures.keys() - {LOST}:
            yield f"by {trial.way} pods failed for another reason: {', '.join(sorted(others))}"
        if trial.per_second < per_second * _SLOWEST_SHARE:
            yield f"only {trial.per_second:.1f} pods a second came: the machine is too slow"


def bench(
    nodes: Annotated[int, typer.Option(min=2, help="Nodes of the pool.")] = 6,
    rounds: Annotated[int, typer.Option(min=1, help="Flips each way.")] = 1,
    per_second: Annotated[float, typer.Option(min=1, help="Pods created a second.")] = 20,
) -> None:
    """Measure, print each flip and the figures; fail where the operator lost a pod."""
    with own_cluster() as cluster:
        trials = _measure(cluster, nodes, rounds, per_second)
    problems = list(find_problems(trials, per_second))
    report_figures("load", FIGURES, find_values(trials), problems)


def _measure(cluster: Cluster, nodes: int, rounds: int, per_second: float) -> list[Trial]:
    place = Bench(cluster)
    place.operators.installation.apply()
    # The pods select their pool themselves, both ways; no webhook runs that could route them.
    place.call("DELETE", f"{_HOOKS}/gpushare-webhook")
    members = [f"n{number}" for number in range(1, nodes + 1)]
    trials = []
    for _ in range(rounds):
        for way in WAYS:
            trials.append(_try(place, way, members, per_second))
            say(f"{trials[-1]}")
            place.clear()
    return trials


def _try(place: Bench, way: str, members: Sequence[str], per_second: float) -> Trial:
    """Make a flip under load; return once every pod of the stream has ended."""
    flip = WAYS[way](place, members)
    stream = PodStream(place, {POOL: "training"}, per_second, _RUN_SECONDS)
    with stream.flowing(_AROUND_SECONDS):
        seconds = flip()
    expect_isolated_from_now_on(place, members)
    rate = stream.created / stream.seconds
    return Trial(way, seconds, stream.created, rate, stream.failures)


if __name__ == "__main__":
    run(bench)
