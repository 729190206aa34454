"""One cluster for the run; every test finds it empty."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.installation import OperatorProcess
from tests.kit.bench import Bench


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A cluster with the chart's objects in it, and no operator yet.

    At the end no call of the operator's may have been refused for lack of a right.
    """
    folder: Path = tmp_path_factory.mktemp("cluster")
    cluster = Cluster(f"test-{os.getpid()}", folder)
    cluster.up()
    try:
        bench = Bench(cluster)
        bench.operators.installation.apply()
        yield bench
        bench.operators.end_all()
        refused = [call for call in bench.audit.calls() if call.is_ours and call.code == 403]
        assert not refused, f"the chart lacks rights: {refused}"
    finally:
        cluster.down()


@pytest.fixture
def bench(installed: Bench) -> Iterator[Bench]:
    """The cluster, empty; a test starts the operators it wants."""
    yield installed
    installed.clear()


@pytest.fixture
def operator(bench: Bench) -> OperatorProcess:
    """The standard operator, running."""
    return bench.operators.standard()
