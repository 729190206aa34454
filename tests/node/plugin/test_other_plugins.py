"""Another pod that runs the device plugin: the kubelet refuses one of the two for good."""

from collections.abc import Iterator
from contextlib import contextmanager

from devcluster.node.plugins import PLUGIN_IMAGE
from tests.kit.bench import SYSTEM_PODS
from tests.kit.cluster.expect import expect, expect_offered, expect_reason
from tests.kit.nodebench import CARD_GIB, CARDS, NodeBench, expect_shared
from tests.kit.values.manifests import NODE_POOL, NODE_POOL_LABEL, build_pool

FOLDER = "/var/lib/kubelet/device-plugins"


@contextmanager
def with_copy(bench: NodeBench) -> Iterator[str]:
    """A pod of nobody's that runs the plugin; its name."""
    name, node = "copy", bench.host.name
    container = {
        "name": "main",
        "image": PLUGIN_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["gpushare-device-plugin-v2", f"--cards={CARDS}", f"--card-gib={CARD_GIB}"],
        "env": [{"name": "NODE_NAME", "value": node}],
        "volumeMounts": [{"name": "plugins", "mountPath": FOLDER}],
    }
    spec = {
        "nodeName": node,
        "serviceAccountName": "gpushare-device-plugin",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "volumes": [{"name": "plugins", "hostPath": {"path": FOLDER}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    bench.call("POST", SYSTEM_PODS, pod)
    try:
        yield name
    finally:
        bench.call("DELETE", f"{SYSTEM_PODS}/{name}")


def test_a_plugin_that_the_kubelet_refuses_is_told_with_the_remedy_and_the_copy_that_is_there(
    bench: NodeBench,
) -> None:
    bench.clear()
    bench.install("OpenSource")
    with with_copy(bench) as name:
        expect_offered(bench, bench.host.name, CARDS * CARD_GIB)
        bench.label(bench.host.name, {NODE_POOL_LABEL: NODE_POOL})
        bench.create_pool(build_pool(edition="OpenSource", schedule="share"))

        told = expect_reason(bench, bench.host.name, "PluginRestarting", "CrashLoopBackOff")

        assert "already connected" in told["message"]
        assert "restart the kubelet" in told["message"]
    expect(bench, "the copy is gone", lambda: name not in names_of(bench))
    # Until the new kubelet has the devices, the node still shows what the old one offered.
    bench.restart_kubelet()
    expect_shared(bench)
    bench.run_pod("after")


def names_of(bench: NodeBench) -> list[str]:
    return [pod["metadata"]["name"] for pod in bench.pods(SYSTEM_PODS)]
