"""Whatever happens to a write, it is done once, or decided anew; never on something else."""

import time
from http import HTTPStatus

import pytest

from gpushare.controller.pool_store import LIST_SECONDS
from tests.integration.outages.fault_scenario import (
    LIST_OF_POOLS,
    NO_WATCH,
    TOO_OLD,
    WATCH,
    Scenario,
    expect_repaired,
)
from tests.kit.bench import NODES
from tests.kit.cluster.expect import expect, expect_gone, expect_labels
from tests.kit.cluster.fault_proxy import Rule

NODE = "/api/v1/nodes/n1[?]"
PLUGIN = "/pods/gpushare-device-plugin-ds"
STATUS = "/gpusharepools/training/status"
ASKED_SECONDS = 3
ASKED = {"Retry-After": str(ASKED_SECONDS)}
MOST_TRIES = 5
STORM_SECONDS = 6
MOST_REQUESTS_A_SECOND = 25


def test_a_foreign_write_between_reading_and_writing_survives(scenario: Scenario) -> None:
    bench, since = scenario.bench, len(scenario.proxy.requests)
    held = scenario.proxy.add(Rule("PATCH", NODE, hold=True))
    with scenario.flipping():
        held.wait_reached()
        for number in range(2):
            bench.label("n1", {"somebody/else": f"was-here-{number}"})
        held.release()
    expect_labels(bench, "n1", {"somebody/else": "was-here-1"})
    # Cordon, labels, plugins recorded, uncordon; and those that were in vain.
    tries = scenario.proxy.matching("PATCH", NODE, since=since)
    assert 4 < len(tries) <= 4 + MOST_TRIES


@pytest.mark.parametrize("back", [False, True], ids=["gone", "another of the same name"])
def test_a_node_that_is_deleted_between_reading_and_writing_is_not_made_by_the_write(
    scenario: Scenario, back: bool
) -> None:
    bench, mark = scenario.bench, scenario.bench.audit.mark()
    plugin = bench.plugins()["n1"]["metadata"]["name"]
    held = scenario.proxy.add(Rule("PATCH", NODE, hold=True))
    scenario.disturb("n1")
    held.wait_reached()
    bench.call("DELETE", f"{NODES}/n1")
    expect_gone(bench, f"{NODES}/n1")
    if back:
        bench.add_nodes("n1")
    held.release()

    expect(bench, "our write is answered", lambda: answers_to_node_writes(scenario, mark))
    assert answers_to_node_writes(scenario, mark)[0] == HTTPStatus.CONFLICT
    if not back:
        scenario.expect_settled(("n2", "n3"))
        assert not bench.cluster.api.exists(f"{NODES}/n1")
        bench.add_nodes("n1")
    scenario.expect_settled()
    # Before 1.33 the plugin's pod outlives its node; on the next one it must be restarted, once.
    assert bench.audit.our_deletions(mark) in ([], [plugin])


def answers_to_node_writes(scenario: Scenario, mark: int) -> list[int]:
    """Status codes of what the operator wrote to n1 since the mark."""
    writes = scenario.bench.audit.our_writes(mark)
    return [call.code for call in writes if (call.resource, call.name) == ("nodes", "n1")]


def test_after_a_429_on_one_node_nothing_is_written_before_the_time(scenario: Scenario) -> None:
    with scenario.at_rest():
        refusal = scenario.proxy.add(Rule("PATCH", NODE, status=429, headers=ASKED))
        scenario.disturb("n1")
        refusal.wait_reached()
        scenario.disturb("n2")
        for name in ("n1", "n2"):
            expect_repaired(scenario.bench, name)
    scenario.expect_left_alone(refusal, "PATCH|POST|DELETE", "", ASKED_SECONDS)


READ: dict[str, tuple[str, str]] = {
    "watch of nodes": (f"/nodes[?].*{WATCH}", f"/nodes[?].*{WATCH}"),
    "list of nodes": ("/nodes[?]limit", "/nodes[?].*(limit|watch)="),
    "list of pools": (LIST_OF_POOLS, LIST_OF_POOLS),
}
"""What is refused, and what is left alone then."""


@pytest.mark.parametrize("what", READ)
def test_after_a_429_on_reading_it_is_left_alone_for_the_time(
    scenario: Scenario, what: str
) -> None:
    refused, left_alone = READ[what]
    watch = f"/nodes[?].*{WATCH}"
    with scenario.flipping():
        refusal = scenario.proxy.add(Rule("GET", refused, status=429, headers=ASKED))
        if what == "list of nodes":
            scenario.proxy.add(Rule("GET", watch, status=200, body=TOO_OLD))
        # The pools are listed each minute, whatever their watch says.
        if "nodes" in what:
            scenario.proxy.cut(watch)
        refusal.wait_reached(within_seconds=2 * LIST_SECONDS)
        scenario.expect_left_alone(refusal, "GET", left_alone, ASKED_SECONDS)


LOST: dict[str, list[tuple[str, str, int]]] = {
    "before the restart": [
        ("PATCH", "/nodes/n1[?]", 1),
        ("PATCH", "/nodes/n2[?]", 2),
        ("PATCH", "/nodes/n3[?]", 3),
    ],
    "from the restart on": [
        ("DELETE", PLUGIN, 1),
        ("PATCH", "/nodes/n2[?]", 4),
        ("PATCH", STATUS, 1),
    ],
}


@pytest.mark.parametrize("writes", LOST.values(), ids=LOST.keys())
def test_a_write_whose_answer_is_lost_is_done_once(
    scenario: Scenario, writes: list[tuple[str, str, int]]
) -> None:
    """Cordon, labels, record of the plugins, restart, uncordon, status: each on some node."""
    rules = [Rule(method, path, nth=nth, cut="answer") for method, path, nth in writes]
    with scenario.flipping():
        for rule in rules:
            scenario.proxy.add(rule)
        for rule in rules:
            rule.wait_reached()


def test_a_storm_passes_in_which_half_of_all_fails_in_every_way(scenario: Scenario) -> None:
    storm = [
        *(
            Rule(".*", "", times=None, probability=0.15, seed=status, status=status)
            for status in (500, 502, 503, 504)
        ),
        Rule(".*", "", times=None, probability=0.1, seed=1, cut="request"),
        Rule(".*", NO_WATCH, times=None, probability=0.1, seed=2, cut="answer"),
    ]
    with scenario.flipping():
        since = len(scenario.proxy.requests)
        for rule in storm:
            scenario.proxy.add(rule)
        scenario.proxy.cut(WATCH)
        time.sleep(STORM_SECONDS)
        asked = len(scenario.proxy.requests) - since
        assert asked <= MOST_REQUESTS_A_SECOND * STORM_SECONDS
