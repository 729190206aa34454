"""What is listed anew may be old or cut short: nothing is concluded from what is not there."""

import urllib.request

import orjson
import pytest

from devcluster.cluster import Cluster
from tests.integration.outages.fault_scenario import (
    LIST_OF_POOLS,
    TOO_OLD,
    WATCH,
    Scenario,
    expect_repaired,
)
from tests.kit.bench import NODES
from tests.kit.cluster.expect import expect
from tests.kit.cluster.fault_proxy import Rule
from tests.kit.cluster.operator_processes import read_metric
from tests.kit.cluster.sharing_pools import plugin_uids

LISTS = "/(nodes|pods|daemonsets)[?]limit=100"
"""Of all objects: by a list of one alone a restored etcd is noticed, and this is none."""
WRITES_BEFORE_COMPACTION = 20
RENEWALS = 3
"""So many of its Lease a controller would have had the time to act."""
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def have_everything_listed_anew(scenario: Scenario) -> None:
    """Every watch of ours is told that it is too old."""
    watch = f"/(nodes|pods|daemonsets)[?].*{WATCH}"
    scenario.proxy.add(Rule("GET", watch, times=3, status=200, body=TOO_OLD))
    scenario.proxy.cut(watch)


def test_history_is_compacted_during_an_outage(scenario: Scenario) -> None:
    """Nothing of what the operator knew can be resumed from: each watch is refused with 410."""
    bench, proxy = scenario.bench, scenario.proxy
    plugins = plugin_uids(bench)
    since, mark = len(proxy.requests), bench.audit.mark()
    outage = proxy.add(Rule(".*", "", times=None, cut="request"))
    proxy.cut("")
    for _ in range(WRITES_BEFORE_COMPACTION):
        scenario.disturb("n1")
    compact_history(bench.cluster)
    bench.cluster.restart("kube-apiserver")

    outage.remove()
    expect_repaired(bench)
    scenario.expect_settled()
    assert proxy.matching("GET", "/nodes[?]limit=", since=since), "its place was still there"
    assert plugin_uids(bench) == plugins
    assert bench.audit.our_deletions(mark) == []
    assert scenario.process.alive


def compact_history(cluster: Cluster) -> None:
    """Have etcd forget every version but the present one."""
    revision = ask_etcd(cluster, "kv/range", {"key": "AA=="})["header"]["revision"]
    ask_etcd(cluster, "kv/compaction", {"revision": revision, "physical": True})


def ask_etcd(cluster: Cluster, call: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
    url = f"http://127.0.0.1:{cluster.ports.etcd}/v3/{call}"
    with _direct.open(urllib.request.Request(url, orjson.dumps(body)), timeout=10) as answer:
        parsed: dict[str, dict[str, str]] = orjson.loads(answer.read())
    return parsed


def read_version_before_a_flip(scenario: Scenario) -> dict[str, str]:
    """Parameters that have a list show how it was before a change that is over by now."""
    version: str = scenario.bench.call("GET", NODES)["metadata"]["resourceVersion"]
    with scenario.flipping():
        # After an API server that was away the others wait longer from try to try.
        scenario.expect_settled(within=120)
    return {"resourceVersion": version, "resourceVersionMatch": "Exact"}


def test_a_controller_that_has_the_lease_writes_nothing_before_the_pools_are_listed(
    scenario: Scenario,
) -> None:
    """Which it asks for then: Kopf, which can't tell of all, asks before."""
    bench = scenario.bench
    scenario.process.stop()
    scenario.disturb()
    mark = bench.audit.mark()
    held = scenario.proxy.add(Rule("GET", LIST_OF_POOLS, times=None, hold=True))
    scenario.start(wait=False)
    held.wait_reached()

    def has_had_time() -> bool:
        calls = [call for call in bench.audit.calls(mark) if call.resource == "leases"]
        return sum(call.is_ours and call.is_write for call in calls) > RENEWALS

    expect(bench, "it holds the Lease for a while", has_had_time)
    assert read_metric(scenario.process, "gpushare_leader") == 1
    assert bench.audit.our_writes(mark) == []

    held.remove()
    expect_repaired(bench)


@pytest.mark.parametrize("kind", ["nodes", pytest.param("pods", marks=pytest.mark.long)])
def test_after_a_start_an_old_list_does_no_harm(scenario: Scenario, kind: str) -> None:
    """The API server's real history: what is shown is the state before the last change."""
    bench, proxy = scenario.bench, scenario.proxy
    old = read_version_before_a_flip(scenario)
    scenario.process.kill()
    shown = proxy.add(Rule("GET", f"/{kind}[?]limit=", times=None, query=old))
    with scenario.at_rest():
        shown.wait_reached()
        scenario.disturb()
        expect_repaired(bench)


def test_in_mid_run_an_old_list_does_no_harm(scenario: Scenario) -> None:
    bench, proxy = scenario.bench, scenario.proxy
    old = read_version_before_a_flip(scenario)
    with scenario.at_rest():
        shown = proxy.add(Rule("GET", LISTS, times=None, query=old))
        have_everything_listed_anew(scenario)
        shown.wait_reached()
        scenario.disturb()
        expect_repaired(bench)
