"""Whole-card plugins that no edition installs, as the development cluster plays them."""

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.plugins import build_nvidia_plugin
from tests.kit.bench import DAEMONSETS, SYSTEM_PODS, Bench
from tests.kit.cluster.expect import expect, expect_running, read_record
from tests.kit.values.manifests import build_whole_card_pod

Json = dict[str, Any]

MIRROR = f"{SYSTEM_PODS}/nvidia-device-plugin-n1"
NVIDIA = "nvidia-device-plugin-daemonset"


@pytest.fixture
def nvidia(bench: Bench) -> Iterator[Json]:
    """NVIDIA's own DaemonSet, which nothing in an edition knows of."""
    plugin = build_nvidia_plugin({"kubernetes.io/hostname": "n1"})
    yield plugin
    bench.call("DELETE", f"{DAEMONSETS}/{NVIDIA}")


def test_a_deleted_mirror_pod_is_back_under_another_uid_and_no_plugin_restarted(
    bench: Bench,
) -> None:
    bench.install("Professional")
    bench.add_nodes("n1", annotations={"sim.devcluster/static-plugin": "true"})
    expect(bench, "n1 offers a whole card", lambda: _cards(bench) == "1")
    before = bench.call("GET", MIRROR)

    with bench.watching() as recording:
        bench.call("DELETE", MIRROR)
        expect(bench, "another mirror pod is Ready", lambda: _is_another(bench, before))

    amounts = {node["status"]["allocatable"].get("nvidia.com/gpu") for node in recording.history}
    assert amounts <= {"1"}


def test_two_plugins_serve_one_resource_and_the_last_one_has_it(bench: Bench, nvidia: Json) -> None:
    bench.install("Professional")
    bench.add_nodes(
        "n1",
        labels={"ack.node.gpu.schedule": "default"},
        faults={"resource_delay_seconds": 0},
    )
    expect(bench, "n1 offers a whole card", lambda: _cards(bench) == "1")
    bench.call("POST", DAEMONSETS, nvidia)
    last = expect(bench, "NVIDIA's plugin is Ready", lambda: _uid_of_ready(bench, NVIDIA))

    pod = expect_running(bench, bench.create_pod(build_whole_card_pod("a")))

    assert read_record(pod)["main"]["plugin"] == last
    assert _uid_of_ready(bench, "ack-nvidia-device-plugin")


def _cards(bench: Bench) -> str | None:
    amount: str | None = bench.node("n1")["status"]["allocatable"].get("nvidia.com/gpu")
    return amount


def _is_another(bench: Bench, before: Json) -> bool:
    pod = bench.call("GET", MIRROR)
    another = bool(pod["metadata"]["uid"] != before["metadata"]["uid"])
    return another and _is_ready(pod)


def _uid_of_ready(bench: Bench, daemonset: str) -> str | None:
    pod = bench.plugins(daemonset).get("n1")
    return pod["metadata"]["uid"] if pod and _is_ready(pod) else None


def _is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
