"""Builds a cluster with nodes of HAMi, NVIDIA's DRA driver and its plugin, as commands read it."""

from collections.abc import Iterator, Mapping

from gpushare.api.pruned.cluster import Cluster
from tests.kit.histories.labelled_cluster import build_plugin_pod
from tests.kit.values.found_clusters import (
    build_found_cluster,
    build_found_pool,
    build_found_webhook,
)
from tests.kit.values.manifests import Json, build_node
from tests.kit.values.node_plans import SHARE

WHOLE, CONFIG_MAP = "nvidia.com/gpu", "device-plugin-config"
NVIDIAS, OURS = "gpu-operator", "gpushare-device-plugin-ds"
_FOLDER = {"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
_SLICES = (
    f"version: v1\nsharing: {{timeSlicing: {{resources: [{{name: {WHOLE}, replicas: 4}}]}}}}\n"
)
_STACK = {
    "nvidia-device-plugin-daemonset": "nvidia-device-plugin",
    "gpu-feature-discovery": "gpu-feature-discovery",
}
"""DaemonSets of the GPU Operator, with the names of their containers."""


def build_stacks_cluster() -> Cluster:
    """Build a pool of mode share with a node of HAMi, one with a configuration of NVIDIA's plugin,
    and nodes without a pool: of HAMi, of DRA, of two stacks, and of NVIDIA's plugin."""
    training = {"selector": {"matchLabels": {"team": "training"}}}
    sliced = build_found_pool("slices", nodes={"names": ["nv-1"]}, edition="NVIDIA")
    del sliced["spec"]["schedule"]
    sliced["spec"]["nvidia"] = {"config": "slices-4"}
    shared = build_node("twice-1", gpus=1, total=15, offers={WHOLE: "10"}, labels=SHARE, ready=True)
    return build_found_cluster(
        nodes=[
            build_node("dra-1", labels={"nvidia.com/gpu.present": "true"}, ready=True),
            build_node("hami-1", offers={WHOLE: "20"}, labels={"team": "training"}, ready=True),
            build_node("hami-2", offers={WHOLE: "20"}, ready=True),
            _build_discovered("nv-1", "slices-4", "time-slicing", 4),
            _build_discovered("nv-2", "whole", "none", 1),
            shared,
        ],
        pods=[
            *(
                _build_foreign("hami-device-plugin", node, "hami", "device-plugin")
                for node in ("hami-1", "hami-2", "twice-1")
            ),
            build_plugin_pod(OURS, "twice-1"),
            *(
                _build_foreign(daemonset, node, NVIDIAS, container)
                for node in ("nv-1", "nv-2")
                for daemonset, container in _STACK.items()
            ),
        ],
        pools=[sliced, build_found_pool("training", schedule="share", nodes=training)],
        daemonsets=[*_build_daemonsets()],
        resourceslices=[
            {
                "metadata": {"name": "dra-1-gpu.nvidia.com-x7k2p", "uid": "slice"},
                "spec": {
                    "driver": "gpu.nvidia.com",
                    "nodeName": "dra-1",
                    "devices": [{"name": "gpu-0"}],
                },
            }
        ],
        deployments=[build_found_webhook(NVIDIA_NAMESPACE=NVIDIAS)],
        pluginconfigs=[
            {
                "metadata": {"name": CONFIG_MAP, "namespace": NVIDIAS, "uid": "configs"},
                "data": {"slices-4": _SLICES, "whole": "version: v1\n"},
            }
        ],
        namespaces=[{"metadata": {"name": "default", "uid": "default"}}],
    )


def _build_discovered(name: str, key: str, strategy: str, replicas: int) -> Json:
    """Build a node with two cards and the labels of GPU feature discovery."""
    labels: Mapping[str, str] = {
        "nvidia.com/device-plugin.config": key,
        f"{WHOLE}.count": "2",
        f"{WHOLE}.replicas": str(replicas),
        f"{WHOLE}.sharing-strategy": strategy,
    }
    return build_node(name, offers={WHOLE: str(2 * replicas)}, labels=labels, ready=True)


def _build_foreign(daemonset: str, node: str, namespace: str, container: str) -> Json:
    """Build a Ready pod of another stack."""
    pod = build_plugin_pod(daemonset, node)
    pod["metadata"]["namespace"] = namespace
    pod["spec"] |= {"containers": [{"name": container}], "volumes": [_FOLDER]}
    return pod


def _build_daemonsets() -> Iterator[Json]:
    for name, container in _STACK.items():
        mounts = [{"name": "configs", "mountPath": "/available-configs"}]
        spec = {
            "containers": [{"name": container, "volumeMounts": mounts}],
            "volumes": [{"name": "configs", "configMap": {"name": CONFIG_MAP}}],
        }
        metadata = {"name": name, "namespace": NVIDIAS, "uid": name}
        yield {"metadata": metadata, "spec": {"template": {"spec": spec}}}
    critical = {"template": {"spec": {"priorityClassName": "system-node-critical"}}}
    yield {"metadata": {"name": OURS, "namespace": "kube-system", "uid": OURS}, "spec": critical}
