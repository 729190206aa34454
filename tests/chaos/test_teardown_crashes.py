"""The operator dies at each write of a teardown, and another goes on where it was."""

from collections.abc import Iterator

import pytest

from devcluster.installation import TEARDOWN_NAMESPACE
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, expect_step
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.installations import teardown_jobs_allowed
from tests.kit.cluster.node_teardown import (
    expect_isolating,
    expect_shared_for_good,
    given_isolating_pool,
    reboot,
)
from tests.kit.cluster.teardown_jobs import TEARDOWN_JOBS

WRITES = "PATCH|POST"
TARGETS = rf"/api/v1/nodes/n1\b|/namespaces/{TEARDOWN_NAMESPACE}/jobs\b"
STEPS = [
    "Cordoned", "Labelled", "uninstall", "Uninstalled", "Rebooted", "verify", "Restarting",
    "applied",
]  # fmt: skip
"""What each write of a teardown brings about, in their order."""


@pytest.fixture(scope="module")
def _allowed(installed: Bench) -> Iterator[None]:
    with teardown_jobs_allowed(installed):
        yield


@pytest.mark.chaos
@pytest.mark.usefixtures("_allowed")
@pytest.mark.parametrize("sent", [True, False], ids=["after each write", "before each write"])
def test_killed_at_every_write_it_makes_each_job_once(bench: Bench, sent: bool) -> None:
    bench.install("Professional")
    with FaultProxy(bench.cluster) as proxy:
        victims = [bench.operators.start(identity="the only one", api_url=proxy.url)]

        def kill() -> None:
            victims[-1].kill()

        teardown = {"policy": "Job", "reboot": "Manual"}
        given_isolating_pool(bench, "training", "n1", isolationTeardown=teardown)
        expect_isolating(bench, training=1)
        for index, step in enumerate(STEPS):
            # One that died before its write makes it now.
            rule = Rule(WRITES, TARGETS, nth=1 if sent or not index else 2)
            if sent:
                rule.after = kill
            else:
                rule.before = kill
            proxy.add(rule)
            if index:
                victims.append(bench.operators.restart(victims[-1]))
            else:
                bench.change_pool(schedule="share")
            if step == "Rebooted":
                expect_step(bench, "n1", "Uninstalled")
                reboot(bench, "n1")
            rule.wait_reached()
            expect(bench, f"the operator is dead at {step}", lambda: not victims[-1].alive)
        bench.operators.restart(victims[-1])
        expect_shared_for_good(bench, "n1")
    jobs = bench.call("GET", TEARDOWN_JOBS)["items"]
    assert sorted(job["metadata"]["name"].split("-")[1] for job in jobs) == ["uninstall", "verify"]
    bench.call("DELETE", TEARDOWN_JOBS, {"propagationPolicy": "Background"})
