"""Builds pools, nodes and pods of NVIDIA's stack, which `devcluster.nvidia` installs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from devcluster import names
from devcluster.nvidia import CONFIG_MAP, install_nvidia, remove_nvidia
from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect
from tests.kit.cluster.installations import installation_with
from tests.kit.values.manifests import build_pod, build_pool

NAMESPACE = names.NVIDIA_NAMESPACE
STACK_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIGS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
GPU, SHARED = names.WHOLE_CARD, names.SHARED_CARD
KEY = names.DEVICE_PLUGIN_CONFIG
CARDS = 2


@contextmanager
def nvidia_installed(bench: Bench, default_key: str = "") -> Iterator[None]:
    """Install NVIDIA's stack beside ACK's, and the chart's objects for it, within the block; remove
    all nodes at the end.

    A node can share by MPS only with the default key.
    """
    # Of the other editions a static plugin would serve the same cards.
    bench.install("Professional")
    install_nvidia(bench.cluster, default_key)
    with installation_with(bench, {"nvidia.namespace": NAMESPACE}):
        yield
        bench.clear()
        expect_stack_gone(bench)
    remove_nvidia(bench.cluster)


def build_nvidia_pool(config: str, **spec: Any) -> Json:
    nvidia = {"config": config, **dict(spec.pop("nvidia", {}))}
    pool = build_pool(edition="NVIDIA", nvidia=nvidia, **spec)
    pool["spec"].pop("schedule", None)
    return pool


def add_gpu_nodes(bench: Bench, *nodes: str, labels: Mapping[str, str] = {}) -> None:
    bench.add_nodes(*nodes, cards=CARDS, labels={names.GPU_PRESENT: "true", **labels})


def ask_for(resource: str, name: str, node: str) -> Json:
    pod = build_pod(name, gib=None, selects={"kubernetes.io/hostname": node})
    pod["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    return pod


def offered(bench: Bench, node: str, resource: str = GPU) -> int:
    return int(bench.node(node)["status"].get("allocatable", {}).get(resource, 0))


def expect_stack_gone(bench: Bench) -> None:
    """Wait until all pods of deleted nodes are gone: garbage collection takes 40 s for each."""

    def probe() -> bool:
        pods = bench.pods(STACK_PODS)
        bench.call("DELETE", f"{STACK_PODS}?gracePeriodSeconds=0")
        return not pods

    expect(bench, "no pod of NVIDIA's stack is left", probe)
