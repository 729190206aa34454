"""Who applies a workload reads at once where its pods will go, or why they will not."""

from typing import Any

import pytest

from tests.kit.bench import Bench
from tests.kit.cluster.pod_admission import given_pools, kubectl_create
from tests.kit.values.manifests import build_pod, build_workload

Json = dict[str, Any]


@pytest.fixture
def pools(bench: Bench) -> Bench:
    bench.operators.standard()
    given_pools(bench, training={"schedule": "share"}, isolated={"schedule": "cgpu"})
    return bench


def warnings_about(bench: Bench, kind: str, pod: Json) -> list[str]:
    """What kubectl prints when a workload of such pods is created."""
    answer = kubectl_create(bench, build_workload(kind, "work", pod=pod))
    assert answer.succeeded, answer.text
    return answer.warnings


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job", "CronJob"])
def test_a_workload_is_told_which_pool_its_pods_go_to(pools: Bench, kind: str) -> None:
    first, *_ = warnings_about(pools, kind, build_pod("p"))
    assert first == "its pods go to pool isolated (cgpu)"
