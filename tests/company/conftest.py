"""The controllers of other projects, each for the tests of a file."""

import os
from collections.abc import Iterator

import pytest

from devcluster.company.controller import Controller
from devcluster.company.kserve import running_kserve
from devcluster.company.kuberay import running_kuberay
from devcluster.company.kueue import running_kueue
from devcluster.toolchain import KSERVE, KUBERAY, KUEUE, GoModule, find_binaries
from tests.company.queues import Queues, cleared
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect_pool_ready
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.pod_admission import expect_sent
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pod, build_pool


def expect_built(module: GoModule) -> None:
    """Skip the test where a project's programs are not built, which CI counts as a failure."""
    if find_binaries(os.environ, module) is None:
        pytest.skip(f"no {module.programs}; `python -m devcluster build --company` builds it")


@pytest.fixture(scope="module")
def kueue(installed: Bench) -> Iterator[Controller]:
    """Kueue, running."""
    expect_built(KUEUE)
    with running_kueue(installed.cluster) as started:
        yield started


@pytest.fixture
def queues(kueue: Controller, bench: Bench) -> Iterator[Queues]:
    """Two pools with a card of 15 GiB each: `training` (n1), which our webhook prefers, and
    `inference` (n2)."""
    given_sharing_pool(bench, "Professional", "n1", priority=500)
    bench.add_nodes("n2", node_pool="np2")
    bench.create_pool(build_pool("inference", node_pool="np2"))
    expect_pool_ready(bench, "inference", nodes=1)
    expect_sent(default_namespace(bench), build_pod("probe"), "training")
    with cleared(bench) as found:
        yield found


@pytest.fixture(scope="module")
def kuberay(installed: Bench) -> Iterator[Controller]:
    """KubeRay, running."""
    expect_built(KUBERAY)
    with running_kuberay(installed.cluster) as started:
        yield started


@pytest.fixture(scope="module")
def kserve(installed: Bench) -> Iterator[Controller]:
    """KServe, running."""
    expect_built(KSERVE)
    with running_kserve(installed.cluster) as started:
        yield started
