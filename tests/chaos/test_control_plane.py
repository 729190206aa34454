"""The control plane fails in the middle of a rollout."""

import time

import pytest

from tests.chaos.process_supervisor import Supervisor
from tests.chaos.rollout import CONVERGES_SECONDS, standing_rollout
from tests.kit.bench import Bench

PAUSE_SECONDS = 30
CONTROLLERS_SECONDS = 60
"""So long kube-controller-manager may wait before it watches again; no plugin comes back before.
client-go's reflectors wait 30 s, and up to as much again, where one outage soon follows another."""


@pytest.mark.parametrize("restarts", [1, pytest.param(4, marks=pytest.mark.chaos)])
def test_a_rollout_survives_restarts_of_the_api_server(bench: Bench, restarts: int) -> None:
    process = bench.operators.start("controller", identity="patient")
    with Supervisor(bench.operators, process) as supervisor, standing_rollout(bench) as rollout:
        for _ in range(restarts):
            rollout.begin_and_wait()
            rollout.let_pass(1.0)
            bench.cluster.restart("kube-apiserver")
            rollout.expect_over(within=CONVERGES_SECONDS + CONTROLLERS_SECONDS)
    assert len(supervisor.restarts) <= restarts, "it ended more than once for one outage"


@pytest.mark.chaos
def test_a_rollout_survives_an_etcd_that_stands_still(bench: Bench) -> None:
    process = bench.operators.start("controller", identity="patient")
    with Supervisor(bench.operators, process) as supervisor, standing_rollout(bench) as rollout:
        rollout.begin_and_wait()
        with bench.paused("etcd"):
            time.sleep(PAUSE_SECONDS)
        rollout.expect_over(within=CONVERGES_SECONDS + CONTROLLERS_SECONDS)
    # It could not renew its Lease, so it had to give up, once: what is new only waits for it.
    assert [code for _, code in supervisor.restarts] == [1]
