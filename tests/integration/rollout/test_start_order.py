"""A controller that has the Lease writes nothing before it has been told of the pools."""

from collections.abc import Iterator

import pytest

from tests.integration.outages.fault_scenario import (
    LIST_OF_POOLS,
    Scenario,
    expect_repaired,
    standing,
)
from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import Call
from tests.kit.cluster.expect import expect
from tests.kit.cluster.fault_proxy import Rule
from tests.kit.cluster.operator_processes import read_metric

RENEWALS = 3
"""So many of its Lease it would have had the time to act."""


@pytest.fixture(scope="module")
def scenario(installed: Bench) -> Iterator[Scenario]:
    with standing(installed) as scenario:
        yield scenario


def test_it_writes_nothing_before_the_pools_are_listed(scenario: Scenario) -> None:
    """Which it asks for when it has the Lease: Kopf, which can't tell of all, asks before."""
    bench = scenario.bench
    scenario.process.stop()
    scenario.disturb("n1")
    mark = bench.audit.mark()
    held = scenario.proxy.add(Rule("GET", LIST_OF_POOLS, times=None, hold=True))
    scenario.start(wait=False)
    held.wait_reached()

    def find_renewals() -> list[Call]:
        calls = [call for call in bench.audit.calls(mark) if call.resource == "leases"]
        renewals = [call for call in calls if call.is_ours and call.is_write]
        return renewals if len(renewals) > RENEWALS else []

    expect(bench, "it holds the Lease for a while", find_renewals)
    assert read_metric(scenario.process, "gpushare_leader") == 1
    assert bench.audit.our_writes(mark) == []

    held.remove()
    expect_repaired(bench, "n1")
