"""Fixtures of several integration tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.toolchain import PROMETHEUS, find_binaries
from tests.integration.outages.fault_scenario import Scenario
from tests.kit.bench import Bench
from tests.kit.cluster.fault_proxy import FaultProxy
from tests.kit.cluster.installations import installed_with


@pytest.fixture
def strict(bench: Bench) -> Iterator[Bench]:
    """An installation that refuses GPU pods while no webhook answers, with one pool."""
    with installed_with(bench, {"webhook.failurePolicy": "Fail"}):
        yield bench


@pytest.fixture(scope="module")
def scenario(installed: Bench) -> Iterator[Scenario]:
    """What faults are measured by, for the tests of a file."""
    with FaultProxy(installed.cluster) as proxy:
        yield Scenario(installed, proxy)
        installed.clear()


@pytest.fixture(scope="session")
def prometheus_programs() -> Path:
    """The folder of prometheus and promtool; a user without them sees these tests skipped, and CI a
    failure."""
    folder = find_binaries(os.environ, PROMETHEUS)
    if folder is None:
        pytest.skip("there is no Prometheus; `python -m devcluster build --prometheus` builds it")
    return folder
