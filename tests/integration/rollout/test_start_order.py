"""A controller writes nothing before it has been told everything once, the Lease included."""

import itertools
from collections.abc import Iterator

import pytest

from tests.integration.outages.fault_scenario import (
    LIST_OF_POOLS,
    MEMBERS,
    Scenario,
    expect_repaired,
    standing,
)
from tests.kit.bench import Bench
from tests.kit.cluster.audit_log import Call
from tests.kit.cluster.expect import expect, expect_quiet
from tests.kit.cluster.fault_proxy import Rule
from tests.kit.cluster.operator_processes import read_metric

LISTS = {
    "nodes": "/nodes[?]limit=",
    "pods": "/pods[?]limit=",
    "daemonsets": "/daemonsets[?]limit=",
    "namespaces": "/namespaces[?]limit=",
}
NODES_IN_TURN = itertools.cycle(MEMBERS)
RENEWALS = 3
"""So many of its Lease it would have had the time to act."""


@pytest.fixture(scope="module")
def scenario(installed: Bench) -> Iterator[Scenario]:
    with standing(installed) as scenario:
        yield scenario


@pytest.mark.parametrize("path", LISTS.values(), ids=LISTS.keys())
def test_it_leaves_the_lease_alone_before_each_list_is_answered(
    scenario: Scenario, path: str
) -> None:
    bench = scenario.bench
    held = Rule("GET", path, times=None, hold=True)
    node, mark = start_held(scenario, held)
    expect_quiet(bench, "it waits", lambda: len(scenario.proxy.requests))
    ours = [call for call in bench.audit.calls(mark) if call.is_ours and call.is_write]
    assert ours == []

    held.remove()
    expect_repaired(bench, node)


def test_it_writes_nothing_before_the_pools_are_listed(scenario: Scenario) -> None:
    """Which it asks for when it has the Lease: Kopf, which can't tell of all, asks before."""
    expect_idle_while_held(scenario, Rule("GET", LIST_OF_POOLS, times=None, hold=True))


def test_it_lists_everything_once_more_when_it_is_the_active_one(scenario: Scenario) -> None:
    """What another one did meanwhile is known before anything is written."""
    expect_idle_while_held(scenario, Rule("GET", LISTS["nodes"], nth=2, hold=True))


def expect_idle_while_held(scenario: Scenario, held: Rule) -> None:
    """A controller that starts anew with work to do does it once the rule lets go, not before."""
    bench = scenario.bench
    node, mark = start_held(scenario, held)

    def find_renewals() -> list[Call]:
        calls = [call for call in bench.audit.calls(mark) if call.resource == "leases"]
        renewals = [call for call in calls if call.is_ours and call.is_write]
        return renewals if len(renewals) > RENEWALS else []

    expect(bench, "it holds the Lease for a while", find_renewals)
    assert read_metric(scenario.process, "gpushare_leader") == 1
    assert bench.audit.our_writes(mark) == []

    held.remove()
    expect_repaired(bench, node)


def start_held(scenario: Scenario, held: Rule) -> tuple[str, int]:
    """A controller that starts anew, held up; the node that is to be repaired, and since when."""
    scenario.process.stop()
    # In turn: a node that is repaired often waits longer.
    node = next(NODES_IN_TURN)
    scenario.disturb(node)
    mark = scenario.bench.audit.mark()
    scenario.proxy.add(held)
    scenario.start(wait=False)
    held.wait_reached()
    return node, mark
