"""Pools that want a number of the nodes that match."""

from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, expect_pool_ready, expect_running, find_condition
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod
from tests.kit.values.manifests import build_pool

POOL = "gpushare.io/pool"
OURS = "gpushare-operator"
FOUR = ("n1", "n2", "n3", "n4")


def sized(**size: int) -> dict[str, object]:
    return {**build_pool()["spec"]["nodes"], "size": size}


def list_members(bench: Bench, pool: str) -> list[str]:
    """List the nodes that carry the pool's label as the operator's own."""
    found = []
    for node in sorted(bench.labels()):
        metadata = bench.node(node)["metadata"]
        ours = [each for each in metadata["managedFields"] if each["manager"] == OURS]
        owns = any(f"f:{POOL}" in str(each["fieldsV1"]) for each in ours)
        if owns and metadata["labels"].get(POOL) == pool:
            found.append(node)
    return found


def expect_members(bench: Bench, pool: str, *nodes: str) -> None:
    expect(bench, f"{pool} has {nodes}", lambda: list_members(bench, pool) == list(nodes))


def test_a_pool_grows_and_shrinks_with_its_size_and_kubectl_shows_it(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", *FOUR, nodes=sized(min=1, max=4))
    busy = expect_running(bench, place_pod(bench, "busy", "n4"))
    mark = bench.audit.mark()
    bench.change_pool(nodes=sized(min=1, max=2))
    expect_members(bench, "training", "n1", "n4")
    expect(bench, "kubectl shows it", lambda: "2/1-2" in bench.cluster.kubectl("get", "gsp"))
    assert bench.audit.our_deletions(mark) == []
    bench.change_pool(nodes=sized(min=1, max=3))
    expect_pool_ready(bench, nodes=3)
    assert expect_running(bench, "busy")["metadata"]["uid"] == busy["metadata"]["uid"]


def test_a_minimum_takes_an_idle_node_by_the_usual_change_and_leaves_the_others(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Professional", *FOUR, nodes=sized(min=2))
    for node in ("n1", "n2", "n3"):
        expect_running(bench, place_pod(bench, f"on-{node}", node))
    mark = bench.audit.mark()
    bench.create_pool(build_pool("isolated", schedule="cgpu", nodes=sized(min=1, max=1)))
    expect_members(bench, "isolated", "n4")
    expect_pool_ready(bench, "isolated", nodes=1)
    expect_members(bench, "training", "n1", "n2", "n3")
    touched = {call.name for call in bench.audit.our_writes(mark) if call.resource == "nodes"}
    assert touched == {"n4"}


def test_two_pools_whose_minima_exceed_the_nodes_say_so_and_move_none(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", *FOUR, nodes=sized(min=3))
    bench.create_pool(build_pool("isolated", schedule="cgpu", nodes=sized(min=2)))
    expect_members(bench, "isolated", "n1")

    def tells() -> bool:
        ready = find_condition(bench.pool("isolated"), "Ready")
        return ready["reason"] == "BelowMinimum" and "training" in ready["message"]

    expect(bench, "the smaller pool says who has the nodes", tells)
    expect_members(bench, "training", "n2", "n3", "n4")


def test_a_node_that_comes_after_the_maximum_stays_as_it_is(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2", nodes=sized(max=2))
    bench.add_nodes("n3")
    mark = bench.audit.mark()
    bench.change_pool(priority=101)
    expect_pool_ready(bench, nodes=2)
    assert [call for call in bench.audit.our_writes(mark) if call.name == "n3"] == []
    assert POOL not in bench.node("n3")["metadata"]["labels"]
