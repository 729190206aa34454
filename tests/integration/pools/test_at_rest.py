"""Where everything is as the pools say, the operator is silent."""

import pytest

from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import Call
from tests.kit.cluster.expect import (
    expect,
    expect_capacity,
    expect_isolation,
    expect_pool_ready,
    expect_reason,
    expect_running,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod, plugin_uids
from tests.kit.values.manifests import build_pool

RENEWALS = 10


def expect_renewals(bench: Bench, since: int, count: int = RENEWALS) -> None:
    """Until the Lease was renewed so many times: the operator's own clock goes on."""

    def count_renewals() -> bool:
        calls: list[Call] = [
            call
            for call in bench.audit.calls(since)
            if call.is_ours and call.resource == "leases" and call.verb == "update"
        ]
        return len(calls) >= count

    expect(bench, f"the Lease is renewed {count} times", count_renewals)


@pytest.fixture
def settled(bench: Bench) -> dict[str, str]:
    """Pools in different states, all of it decided; the plugins' UIDs."""
    given_sharing_pool(bench, "Professional", "n1", "n2", placement="spread")
    bench.add_nodes("stuck", labels={"cgpu": "true"})
    expect_reason(bench, "stuck", "OtherEditionLabels")
    bench.create_pool(build_pool("rival"))
    expect_reason(bench, "n1", "OwnedByOtherPool", pool="rival")
    bench.create_pool(build_pool("nobody", node_pool="np9"))
    expect_pool_ready(bench, "nobody", nodes=0)
    expect_running(bench, place_pod(bench, "job", "n1"))
    expect_capacity(bench, memoryAllocated=3)
    expect_isolation(bench, containers=1)
    # What was written up to now is in the audit log by then.
    expect_renewals(bench, bench.audit.mark(), 1)
    return plugin_uids(bench)


@pytest.mark.usefixtures("settled")
def test_at_rest_nothing_is_said_and_nothing_written_but_the_lease(bench: Bench) -> None:
    mark, log = bench.audit.mark(), bench.operators.standard().log
    said = log.read_text()

    expect_renewals(bench, mark)

    assert bench.audit.our_writes(mark) == []
    assert log.read_text() == said


def test_a_second_start_restarts_nothing_and_writes_nothing(
    bench: Bench, settled: dict[str, str]
) -> None:
    bench.operators.end_all()
    mark = bench.audit.mark()

    bench.operators.standard()
    expect_renewals(bench, mark)

    assert bench.audit.our_writes(mark) == []
    assert plugin_uids(bench) == settled
