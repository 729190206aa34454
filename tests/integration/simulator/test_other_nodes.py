"""Nodes without cards, as the bed has them."""

from tests.kit.bench import GPU_MEM, SYSTEM_PODS, Bench, Json
from tests.kit.cluster.expect import expect, expect_offered

SHARE = {"ack.node.gpu.schedule": "share"}
OTHERS = ("cpu", "win", "virtual")


def test_a_node_without_cards_is_ready_and_offers_none_whatever_its_labels_say(
    bench: Bench,
) -> None:
    bench.install("Professional")
    bench.add_nodes("gpu", labels=SHARE)
    bench.add_other_nodes(("CPU", "cpu"), ("Windows", "win"), ("virtual", "virtual"), labels=SHARE)
    expect_offered(bench, "gpu")
    systems = {name: bench.node(name)["status"]["nodeInfo"]["operatingSystem"] for name in OTHERS}
    assert systems == {"cpu": "linux", "win": "windows", "virtual": "linux"}
    assert all(GPU_MEM not in bench.node(name)["status"]["capacity"] for name in OTHERS)
    waiting = expect(bench, "DaemonSets' pods on nodes without cards", lambda: _find_pods(bench))
    assert {pod["status"]["phase"] for pod in waiting} == {"Pending"}


def _find_pods(bench: Bench) -> list[Json]:
    return [pod for pod in bench.pods(SYSTEM_PODS) if pod["spec"].get("nodeName") in OTHERS]
