"""Whatever happens to a watch, a pool changes its mode as if nothing had happened."""

import time

import pytest

from gpushare.controller.pool_store import LIST_SECONDS
from tests.integration.outages.fault_scenario import (
    MEMBERS,
    TOO_OLD,
    WATCH,
    Scenario,
    expect_repaired,
)
from tests.kit.bench import POOLS
from tests.kit.cluster.expect import expect
from tests.kit.cluster.fault_proxy import Rule
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.values.manifests import build_pool

KINDS = ("nodes", "pods", "daemonsets", "gpusharepools")
OWN_KINDS = ("nodes", "pods", "daemonsets")
"""Those that we watch ourselves; the pools' watch is Kopf's."""
SILENT_SECONDS = 2
NOTICED_SECONDS = 45
"""A watch is given up a few seconds after it should have ended by itself."""
LATE_SECONDS = 3
WRITES_OF_A_FLIP = 4
MOST_TRIES = 5


def watch_of(kind: str) -> str:
    return f"/{kind}[?].*{WATCH}"


@pytest.mark.parametrize("status", [401, pytest.param(403, marks=pytest.mark.long)])
def test_watches_are_refused_once(scenario: Scenario, status: int) -> None:
    with scenario.flipping():
        rules = [scenario.proxy.add(Rule("GET", watch_of(kind), status=status)) for kind in KINDS]
        scenario.proxy.cut(WATCH)
        for rule in rules:
            rule.wait_reached()


def test_watches_that_end_at_once_are_not_opened_in_a_hot_loop(scenario: Scenario) -> None:
    began, since = time.monotonic(), len(scenario.proxy.requests)
    with scenario.flipping():
        for kind in OWN_KINDS:
            scenario.proxy.add(Rule("GET", watch_of(kind), times=None, status=200, body=b""))
        scenario.proxy.cut(WATCH)
        scenario.expect_requests(watch_of("nodes"), 4, since=since)
    for kind in OWN_KINDS:
        opened = len(scenario.proxy.matching("GET", watch_of(kind), since=since))
        assert opened <= 6 + (time.monotonic() - began) / 2, kind


def test_watches_that_fall_silent_are_opened_anew(scenario: Scenario) -> None:
    """Nothing ends the connection, as when a firewall forgot it."""
    with scenario.at_rest():
        # Those that are open may still be ones that end at once.
        since = len(scenario.proxy.requests)
        scenario.proxy.cut(WATCH)
        scenario.expect_requests(watch_of("nodes"), 1, since=since)
        scenario.proxy.silence(WATCH)
        silent_since = time.monotonic()
        scenario.disturb()
        expect_repaired(scenario.bench, within=NOTICED_SECONDS)
        assert time.monotonic() - silent_since > SILENT_SECONDS
        scenario.proxy.cut(WATCH)


def test_a_change_of_a_pool_is_found_where_its_watch_is_silent(scenario: Scenario) -> None:
    scenario.proxy.silence(watch_of("gpusharepools"))
    with scenario.flipping():
        scenario.expect_settled(within=2 * NOTICED_SECONDS)


@pytest.mark.parametrize("kind", OWN_KINDS)
def test_one_kind_is_seen_late_and_no_node_is_written_to_in_a_hot_loop(
    scenario: Scenario, kind: str
) -> None:
    """Of nodes, what our own writes were answered with is known; what the kubelet wrote is not."""
    since = len(scenario.proxy.requests)
    scenario.proxy.silence(watch_of(kind))
    with scenario.flipping() as nodes:
        expect(
            scenario.bench,
            "a node is cordoned",
            lambda: any(node["spec"].get("unschedulable") for node in nodes.history),
        )
        # Events of the silenced watch come now, after a while in which others came.
        time.sleep(LATE_SECONDS)
        scenario.proxy.cut(watch_of(kind))
    for name in MEMBERS:
        tries = scenario.proxy.matching("PATCH", f"/nodes/{name}[?]", since=since)
        assert len(tries) <= WRITES_OF_A_FLIP + MOST_TRIES, name


def test_a_pool_that_was_replaced_under_its_name_unseen_goes_on(scenario: Scenario) -> None:
    """Nobody tells of the pool's end, nor of its successor; the list that follows shows it."""
    bench = scenario.bench
    with scenario.at_rest():
        lost = Rule("GET", watch_of("gpusharepools"), times=None, alter=lambda line: None)
        scenario.proxy.add(lost)
        scenario.proxy.cut(watch_of("gpusharepools"))
        lost.wait_reached()
        bench.call("PATCH", f"{POOLS}/training", {"metadata": {"finalizers": None}})
        bench.delete_pool()
        bench.create_pool(build_pool(edition="Basic", schedule=scenario.mode))
        lost.remove()
        scenario.proxy.add(Rule("GET", watch_of("gpusharepools"), status=200, body=TOO_OLD))
        scenario.proxy.cut(watch_of("gpusharepools"))
        expect(bench, "it is adopted", lambda: bench.pool()["metadata"].get("finalizers"))


def test_a_pool_that_is_gone_unseen_is_found_missing_by_the_list_of_the_next_minute(
    scenario: Scenario,
) -> None:
    """Its finalizer was taken away by hand, and no watch shows that it went."""
    bench = scenario.bench

    def count_known() -> float:
        return read_metric(scenario.process, "gpushare_pool_info", pool="training")

    with scenario.at_rest():
        lost = Rule("GET", watch_of("gpusharepools"), times=None, alter=lambda line: None)
        scenario.proxy.add(lost)
        scenario.proxy.cut(watch_of("gpusharepools"))
        lost.wait_reached()
        bench.call("PATCH", f"{POOLS}/training", {"metadata": {"finalizers": None}})
        bench.delete_pool()
        assert count_known() == 1
        seconds = LIST_SECONDS + LATE_SECONDS
        expect(bench, "it is known no more", lambda: not count_known(), within_seconds=seconds)
        lost.remove()
        bench.create_pool(build_pool(edition="Basic", schedule=scenario.mode))
        expect(bench, "it is adopted", lambda: bench.pool()["metadata"].get("finalizers"))


def test_where_the_watch_of_pools_can_not_go_on_a_new_process_does(scenario: Scenario) -> None:
    """A process that is deaf to its pools must not live on."""
    with scenario.flipping():
        scenario.proxy.add(Rule("GET", watch_of("gpusharepools"), status=410))
        scenario.proxy.cut(watch_of("gpusharepools"))
        expect(scenario.bench, "the operator ends", lambda: not scenario.process.alive)
        scenario.start()
