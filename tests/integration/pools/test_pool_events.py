"""What the operator knows of pools comes from events: it lists them only where it must."""

from tests.integration.outages.fault_scenario import TOO_OLD, WATCH
from tests.kit.bench import POOLS, Bench
from tests.kit.cluster.audit_log import Call
from tests.kit.cluster.expect import expect, expect_capacity, expect_gone, expect_pool_ready
from tests.kit.cluster.fault_proxy import FaultProxy, Rule
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod
from tests.kit.values.manifests import build_pool


def expect_released(bench: Bench, node: str) -> None:
    """Until the node, which keeps its labels, is of no pool that the operator knows."""
    expect(
        bench,
        f"{node} is given up",
        lambda: "gpushare.io/applied" not in bench.node(node)["metadata"]["annotations"],
    )


def find_lists(bench: Bench, since: int) -> list[Call]:
    """Our lists of pools since the mark, Kopf's among them."""
    return [
        call
        for call in bench.audit.calls(since)
        if call.is_ours and call.resource == "gpusharepools" and call.verb == "list"
    ]


def test_a_pool_comes_changes_and_goes_without_a_list(bench: Bench) -> None:
    given_sharing_pool(bench, "Basic", "n1")
    mark = bench.audit.mark()
    place_pod(bench, "job", "n1")
    expect_capacity(bench, memoryAllocated=3)
    bench.create_pool(build_pool("another", node_pool="np9"))
    expect_pool_ready(bench, "another", nodes=0)
    bench.change_pool("another", priority=7)
    expect_pool_ready(bench, "another", nodes=0)
    for name in ("another", "training"):
        bench.delete_pool(name)
        expect_gone(bench, f"{POOLS}/{name}")
    expect_released(bench, "n1")
    bench.create_pool(build_pool("training", edition="Basic"))
    expect_pool_ready(bench, nodes=1)
    assert find_lists(bench, mark) == []


def test_a_pool_that_went_while_nobody_watched_is_gone_and_another_may_come(bench: Bench) -> None:
    """It was the last one: no event of any pool follows."""
    watch = f"/gpusharepools[?].*{WATCH}"
    with FaultProxy(bench.cluster) as proxy:
        bench.operators.start("controller", api_url=proxy.url)
        given_sharing_pool(bench, "Basic", "n1")
        away = proxy.add(Rule("GET", watch, hold=True, status=200, body=TOO_OLD))
        proxy.cut(watch)
        away.wait_reached()
        bench.call("PATCH", f"{POOLS}/training", {"metadata": {"finalizers": None}})
        bench.delete_pool()

        away.release()
        expect_released(bench, "n1")
        bench.create_pool(build_pool(edition="Basic"))
        expect_pool_ready(bench, nodes=1)
        bench.operators.end()
