"""``python -m bench.policy``: the time of a pod's creation with the policy and without."""

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer

from bench.core.figure import Figure, find_ratio, report_figures
from bench.core.session import own_cluster, run, say
from devcluster.installation import Installation
from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect
from tests.kit.cluster.namespaces import Namespace, temporary_namespace
from tests.kit.cluster.pod_admission import decision_of
from tests.kit.values.manifests import build_pod, build_pool

# API servers of Kubernetes 1.37 convert the table for each expression that is evaluated.
FIGURES = (
    Figure("ratio_with_gpu", "times without the policy", limit=1.69),
    Figure("ratio_without_gpu", "times without the policy", limit=1.25, goal=1.15),
)
_LABEL = "bench-policy"
_BINDING = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/gpushare-pools"
_PER_MEDIAN = 20
_VALUES = {"admissionPolicy.enabled": "true"}
_TABLE = {"GPUSHARE_ADMISSION_TABLE": "true"}


def bench(
    pools: Annotated[int, typer.Option(min=1, help="Number of pools.")] = 20,
    pods: Annotated[int, typer.Option(min=_PER_MEDIAN, help="Dry runs of each kind.")] = 2000,
) -> None:
    """Measure in turns, and fail where a ratio is beyond its limit; the webhook answers all
    along."""
    with own_cluster() as cluster:
        bench = Bench(cluster)
        Installation(cluster, _VALUES).apply()
        with _two_namespaces(bench) as (without, within):
            _install(bench, within, pools)
            values = dict(_measure(without, within, pods))
        bench.operators.end_all()
    report_figures("policy", FIGURES, values)


@contextmanager
def _two_namespaces(bench: Bench) -> Iterator[tuple[Namespace, Namespace]]:
    """Give two namespaces within the block; the policy is in force in the second alone."""
    with (
        temporary_namespace(bench) as without,
        temporary_namespace(bench, {_LABEL: "on"}) as within,
    ):
        selector = {"matchLabels": {_LABEL: "on"}}
        change = {"spec": {"matchResources": {"namespaceSelector": selector}}}
        bench.call("PATCH", _BINDING, change)
        yield without, within


def _install(bench: Bench, within: Namespace, pools: int) -> None:
    """Create the pools; return once the webhook assigns pods, which the policy did before."""
    for number in range(pools):
        name = f"pool-{number}"
        bench.create_pool(build_pool(name, node_pool=name, schedule="cgpu", priority=number))
    bench.operators.start("controller", env=_TABLE)
    _expect_reason(within, "RoutedByPolicy")
    bench.operators.start("webhook")
    _expect_reason(within, "Routed")


def _expect_reason(space: Namespace, reason: str) -> None:
    def is_so() -> bool:
        return decision_of(space.send(build_pod("p"))).get("reason") == reason

    expect(space.bench, f"pods are {reason}", is_so)


def _measure(without: Namespace, within: Namespace, pods: int) -> Iterator[tuple[str, float]]:
    kinds: Mapping[str, Json] = {
        "with_gpu": build_pod("p"),
        "without_gpu": build_pod("p", gib=None),
    }
    for kind, pod in kinds.items():
        pairs = [(_time(without, pod), _time(within, pod)) for _ in range(pods)]
        some = [pairs[first : first + _PER_MEDIAN] for first in range(0, pods, _PER_MEDIAN)]
        medians = [
            (statistics.median(w for w, _ in each), statistics.median(w for _, w in each))
            for each in some
        ]
        ratio = find_ratio(medians)
        say(
            f"{kind}: {statistics.median(w for w, _ in pairs) * 1000:.2f} ms without the policy, "
            f"{ratio:.3f} times that with it"
        )
        yield f"ratio_{kind}", ratio


def _time(space: Namespace, pod: Json) -> float:
    """Return the seconds that a dry run of the pod takes."""
    started = time.perf_counter()
    space.send(pod)
    return time.perf_counter() - started


if __name__ == "__main__":
    run(bench)
