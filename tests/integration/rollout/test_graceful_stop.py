"""A controller that is told to stop ends soon, whatever it has in hand; the next one goes on."""

import time
from dataclasses import dataclass
from threading import Event

import pytest

from tests.integration.outages.fault_scenario import MEMBERS, Scenario
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, read_change
from tests.kit.cluster.fault_proxy import Rule
from tests.kit.cluster.operator_processes import CONTROLLER_LEASE

STOP_SECONDS = 10
NODE = "/nodes/n[0-9]+[?]"
PLUGIN = "/pods/gpushare-device-plugin-ds"
LEASE = "/leases/gpushare-controller$"
LONG_LOOK = {"GPUSHARE_RECHECK_SECONDS": "60"}
HANGS_SECONDS = 60


@dataclass(frozen=True)
class Moment:
    """A write of a change of mode that is in hand at the stop."""

    method: str
    path: str
    nth: int = 1
    done: bool = False
    """The API server has carried it out, and its answer is late; else it has not even arrived."""


MOMENTS = {
    "the cordon, on its way": Moment("PATCH", NODE, 1),
    "the labels, done and not answered": Moment("PATCH", NODE, 2, done=True),
    "the plugin's deletion, on its way": Moment("DELETE", PLUGIN),
    "the uncordon, done and not answered": Moment("PATCH", NODE, 4, done=True),
    "the pool's status, on its way": Moment("PATCH", "/gpusharepools/training/status"),
    "the Lease's renewal, on its way": Moment("PUT", LEASE),
}


def stop(scenario: Scenario) -> None:
    """Stop the operator: it must end in time, and well."""
    began = time.monotonic()
    scenario.process.stop()
    took = time.monotonic() - began
    print(f"stopped after {took:.2f} s")
    assert scenario.process.process.returncode == 0, scenario.bench.operators.tail()
    assert took < STOP_SECONDS


def read_holder(bench: Bench) -> str:
    holder: str = bench.call("GET", CONTROLLER_LEASE)["spec"]["holderIdentity"]
    return holder


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_told_to_stop_with_a_write_in_hand_it_ends_and_the_next_goes_on(
    scenario: Scenario, moment: Moment
) -> None:
    """What was on its way arrives when the next one is at work."""
    answers = Event()
    rule = Rule(moment.method, moment.path, nth=moment.nth, hold=not moment.done)
    if moment.done:
        rule.after = lambda: answers.wait(HANGS_SECONDS)
    try:
        with scenario.flipping():
            scenario.proxy.add(rule)
            rule.wait_reached()

            stop(scenario)
            assert read_holder(scenario.bench) == ""
            scenario.start()
            rule.release()
            scenario.expect_settled()
    finally:
        answers.set()


def test_told_to_stop_in_its_second_look_it_ends_and_the_next_goes_on(scenario: Scenario) -> None:
    scenario.process.kill()
    scenario.start(env=LONG_LOOK)
    with scenario.flipping():
        expect(
            scenario.bench,
            "a node is looked at again",
            lambda: any(
                read_change(scenario.bench.node(name)).get("phase") == "Cordoned"
                for name in MEMBERS
            ),
        )
        stop(scenario)
        assert read_holder(scenario.bench) == ""
        scenario.start()


def test_told_to_stop_while_nothing_is_answered_it_ends_and_keeps_its_lease(
    scenario: Scenario,
) -> None:
    with scenario.flipping():
        stalled = scenario.proxy.add(Rule(".*", "", times=None, stall=True))
        stalled.wait_reached()
        stop(scenario)
        assert read_holder(scenario.bench) == scenario.process.identity
        scenario.proxy.remove_all()
        scenario.start()
