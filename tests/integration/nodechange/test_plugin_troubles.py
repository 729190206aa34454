"""Plugins that are not what their node's mode says: each is told, with what mends it."""

from collections.abc import Iterator

import pytest

from devcluster.plugins import build_nvidia_plugin
from tests.kit.bench import DAEMONSETS, SYSTEM_PODS, Bench
from tests.kit.cluster.expect import expect, expect_offered, expect_pool_ready, expect_reason
from tests.kit.cluster.sharing_pools import plugin_uids
from tests.kit.values.manifests import build_pool

WHOLE = "nvidia.com/gpu"
NVIDIA = "nvidia-device-plugin-daemonset"
SHARE, DEFAULT = {"ack.node.gpu.schedule": "share"}, {"ack.node.gpu.schedule": "default"}
IMPATIENT = {"GPUSHARE_ZERO_PATIENCE_SECONDS": "2"}


@pytest.fixture
def professional(bench: Bench) -> Iterator[Bench]:
    """The Professional edition, put back as it was after the test."""
    bench.install("Professional")
    yield bench
    if bench.cluster.api.exists(f"{DAEMONSETS}/{NVIDIA}"):
        bench.call("DELETE", f"{DAEMONSETS}/{NVIDIA}")
    bench.install("Professional")


def count_nodes(bench: Bench) -> tuple[int, int, int]:
    """How many nodes of the pool are ready, blocked and failed."""
    nodes = bench.pool()["status"]["nodes"]
    return nodes["ready"], nodes["blocked"], nodes["failed"]


def test_each_trouble_of_a_sharing_node_is_told_and_its_remedy_mends_it(
    professional: Bench,
) -> None:
    bench = professional
    bench.add_nodes("two", "fine", labels=SHARE)
    bench.add_nodes("left", labels=DEFAULT, faults={"keeps_old_resource": True})
    bench.add_nodes("mib", labels=SHARE, faults={"memory_unit": "MiB"})
    bench.add_nodes("blind", labels=SHARE, faults={"no_cards": True})
    bench.add_nodes("comes-blind", faults={"no_cards": True})
    expect_offered(bench, "left", 1, resource=WHOLE)
    bench.label("left", SHARE)
    expect_offered(bench, "left")
    expect_offered(bench, "two")
    bench.call("POST", DAEMONSETS, build_nvidia_plugin({"kubernetes.io/hostname": "two"}))
    expect_offered(bench, "two", 1, resource=WHOLE)
    bench.operators.start(env=IMPATIENT)
    bench.create_pool(build_pool())

    told = {
        node: expect_reason(bench, node, reason)["message"]
        for node, reason in (
            ("two", "CompetingStacks"),
            ("left", "LeftOverResource"),
            ("mib", "MemoryUnitDiffers"),
            ("blind", "NoCards"),
            ("comes-blind", "NoCards"),
        )
    }

    assert f"pod kube-system/{NVIDIA}" in told["two"]
    assert "restart the kubelet" in told["left"]
    assert "--memory-unit=GiB" in told["mib"]
    assert "kubectl -n kube-system delete pod" in told["blind"]
    expect(bench, "all are told of", lambda: count_nodes(bench) == (1, 4, 1))

    bench.call("DELETE", f"{DAEMONSETS}/{NVIDIA}")
    for node in ("left", "mib", "blind", "comes-blind"):
        bench.set_faults(node)
    restart_plugins(bench, "mib", "blind", "comes-blind")
    expect_pool_ready(bench, nodes=6)


def restart_plugins(bench: Bench, *nodes: str) -> None:
    """As a person does once the cause is mended."""
    for node in nodes:
        uid = plugin_uids(bench)[node]
        bench.call("DELETE", f"{SYSTEM_PODS}/{bench.plugins()[node]['metadata']['name']}")

        def is_another(node: str = node, uid: str = uid) -> bool:
            return plugin_uids(bench).get(node, uid) != uid

        expect(bench, f"another plugin runs on {node}", is_another)


def test_a_daemonset_that_does_not_select_a_node_is_told_with_the_label_until_it_is_there(
    professional: Bench,
) -> None:
    bench, count = professional, "aliyun.accelerator/nvidia_count"
    bench.install("Basic")
    bench.add_nodes("unmarked")
    bench.label("unmarked", {count: None})
    bench.operators.start()
    bench.create_pool(build_pool(edition="Basic", schedule="default"))

    told = expect_reason(bench, "unmarked", "ComponentNotReady", "does not select")["message"]

    assert "device-plugin-recover-ds" in told
    assert f"{count}." in told
    bench.label("unmarked", {count: "1"})
    expect_pool_ready(bench, nodes=1)
