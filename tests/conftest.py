"""Rules for every test, and the cluster of those that need one."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from devcluster.cluster import Cluster
from devcluster.installation import OperatorProcess
from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import expect_rights_sufficed
from tests.kit.cluster.operator_processes import KUBELET_PERIOD_SECONDS
from tests.rights import leave_rights

# A busy machine is no finding: tests have a time limit as a whole. A suite plays the same examples
# each time; what `make fuzz` finds beyond them becomes an @example of its test.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that is skipped has failed: nobody reads a list of skips."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI counts as a failure: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests of real parts have printed, and passed, are the figures that they came to."""
    told = [
        text
        for report in terminalreporter.getreports("passed")
        for name, text in report.sections
        if name == "Captured stdout call" and not report.nodeid.startswith("tests/unit/")
    ]
    if told:
        terminalreporter.section("figures")
        terminalreporter.write("".join(told))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A cluster with the chart's objects in it, and no operator yet.

    At the end the operator must have lacked no right, and no policy of the chart refused it a call.
    """
    folder: Path = tmp_path_factory.mktemp("cluster")
    cluster = Cluster(f"test-{os.getpid()}", folder, kubelet_period_seconds=KUBELET_PERIOD_SECONDS)
    cluster.up()
    try:
        bench = Bench(cluster)
        bench.operators.installation.apply()
        yield bench
        bench.operators.end_all()
        leave_rights(bench)
        expect_rights_sufficed(bench.audit)
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
