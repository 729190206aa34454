"""Two controllers, one Lease: only who holds it acts, whatever happens to the other."""

import os
import signal

import pytest

from tests.chaos.lease_audit import find_claims, find_late_writes
from tests.chaos.process_supervisor import Supervisor
from tests.chaos.rollout import standing_rollout
from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import OURS, AuditTail
from tests.kit.cluster.expect import expect
from tests.kit.cluster.operator_processes import CONTROLLER_LEASE

SHORT_LEASE = {"GPUSHARE_LEASE_DURATION_SECONDS": "3", "GPUSHARE_LEASE_RENEW_SECONDS": "0.5"}
BY_US = (OURS.encode(),)


def expect_another(bench: Bench, *, than: str = "") -> str:
    """The holder of the Lease, once it is another."""

    def probe() -> str | None:
        holder: str = bench.call("GET", CONTROLLER_LEASE)["spec"].get("holderIdentity") or ""
        return holder if holder != than else None

    return expect(bench, f"the Lease goes to another than {than or 'nobody'}", probe)


@pytest.mark.parametrize("stops", [2, pytest.param(50, marks=pytest.mark.chaos)])
def test_a_holder_that_slept_past_its_lease_writes_nothing_more(
    bench: Bench, written: AuditTail, stops: int
) -> None:
    # At the same moment: neither may be ready yet.
    processes = [
        bench.operators.start("controller", identity=identity, env=SHORT_LEASE, wait=False)
        for identity in ("first", "second")
    ]
    active = expect_another(bench)
    with (
        Supervisor(bench.operators, *processes) as supervisor,
        standing_rollout(bench, seed=stops) as rollout,
    ):
        for _ in range(stops):
            if rollout.is_over():
                rollout.begin()
            rollout.let_pass(1.5)
            sleeper = supervisor[active]
            os.kill(sleeper.process.pid, signal.SIGSTOP)
            try:
                active = expect_another(bench, than=active)
                rollout.let_pass(0.5)
            finally:
                os.kill(sleeper.process.pid, signal.SIGCONT)
        # Each may lose the Lease to the other once more: on a busy machine that takes its time.
        rollout.expect_over(within=60)
    calls = list(written.read(about=BY_US))
    assert len(find_claims(calls)) > stops

    late = [str(write) for write in find_late_writes(calls)]
    assert late == []
