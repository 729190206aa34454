"""A pool whose selector covers many nodes that can't join: how few of them are ever cordoned."""

from tests.kit.bench import NODES, POOLS, Bench, Json
from tests.kit.cluster.expect import expect, expect_condition, expect_pool_ready
from tests.kit.values.manifests import NODE_POOL, NODE_POOL_LABEL, build_pool

MOST = 4
SETTINGS = {"GPUSHARE_MAX_JOINS": str(MOST)}
CROWD = [f"cpu-{number:02}" for number in range(20)]
SELECTOR = {"matchLabels": {NODE_POOL_LABEL: NODE_POOL}}


def list_cordoned(bench: Bench) -> set[str]:
    nodes: list[Json] = bench.call("GET", NODES)["items"]
    return {n["metadata"]["name"] for n in nodes if n["spec"].get("unschedulable")}


def test_of_many_nodes_without_cards_that_a_pool_assumes_few_are_ever_cordoned(
    bench: Bench,
) -> None:
    bench.install("OpenSource")
    bench.add_other_nodes(*(("CPU", name) for name in CROWD))
    operator = bench.operators.start(env=SETTINGS)
    nodes = {"selector": SELECTOR, "cards": "Assumed"}
    rollout = {"readyTimeoutSeconds": 10}
    with bench.watching() as watch:
        bench.create_pool(build_pool(edition="OpenSource", nodes=nodes, rollout=rollout))
        expect_condition(bench, "RolloutComplete", "False", "JoinsHalted")
        first = list_cordoned(bench)
        # Neither a restart nor a retry exposes another node.
        operator.kill()
        bench.operators.start(env=SETTINGS)
        bench.annotate(f"{POOLS}/training", {"gpushare.io/retry": "1"})
        expect(bench, "all are tried again", lambda: count(bench, "updating") == MOST)
        expect(bench, "all failed again", lambda: count(bench, "failed") == MOST)
    ever = {node["metadata"]["name"] for node in watch.history if node["spec"].get("unschedulable")}
    assert len(first) == MOST
    assert ever == first
    # Once the pool says so no more, they are in service again.
    bench.change_pool(nodes={"cards": "Detected"})
    expect(bench, "no node is cordoned", lambda: not list_cordoned(bench))


def test_nodes_join_few_at_once_until_all_have_joined(bench: Bench) -> None:
    bench.install("Professional")
    names = [f"gpu-{number}" for number in range(10)]
    bench.add_nodes(*names, labels={"ack.node.gpu.schedule": "default"})
    bench.operators.start(env=SETTINGS)
    with bench.watching() as watch:
        bench.create_pool(build_pool())
        expect_pool_ready(bench, nodes=len(names))
    cordoned: set[str] = set()
    most = 0
    for node in watch.history:
        change = cordoned.add if node["spec"].get("unschedulable") else cordoned.discard
        change(node["metadata"]["name"])
        most = max(most, len(cordoned))
    assert most == MOST


def count(bench: Bench, state: str) -> int:
    found: int = bench.pool()["status"]["nodes"][state]
    return found
