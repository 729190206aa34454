"""Builds clusters with GPU nodes that users labelled, as commands read them; also random ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpushare.api.pruned.cluster import Cluster
from tests.kit.histories.gpu_cluster import MODE_LABELS, SHARING
from tests.kit.values.found_clusters import build_found_cluster
from tests.kit.values.manifests import NODE_POOL_LABEL, Json, build_node

CARDS_LABEL = "aliyun.accelerator/nvidia_count"
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}
_STARTED = "2026-02-01T00:00:00Z"
_PLUGINS = {
    "share": ("gpushare-device-plugin-ds",),
    "cgpu": ("gpushare-device-plugin-ds", "cgpu-installer"),
    "core_mem": ("gpushare-core-device-plugin-ds", "cgpu-core-installer"),
    "mps": ("gpushare-mps-device-plugin-ds", "ack-mps-control"),
    "topology": ("gputopo-device-plugin-ds",),
    "disabled": (),
}
_WHOLE_CARDS = {
    "Professional": ("ack-nvidia-device-plugin",),
    "Basic": ("device-plugin-recover-ds",),
    "OpenSource": (),
}


@dataclass(frozen=True)
class LabelledNode:
    """A GPU node with one card of 15 GiB, in a mode that a user set."""

    name: str
    edition: str = "Professional"
    schedule: str = "share"
    node_pool: str = "np1"
    labels: Mapping[str, str | None] = field(default_factory=dict)
    """Added or changed labels; None removes one."""
    extra_plugins: Sequence[str] = ()
    offers: Mapping[str, str] = field(default_factory=dict)
    """Added resources."""
    has_plugins: bool = True

    @property
    def all_labels(self) -> dict[str, str]:
        known: dict[str, str | None] = {CARDS_LABEL: "1"}
        if self.node_pool:
            known[NODE_POOL_LABEL] = self.node_pool
        known |= {**MODE_LABELS[self.edition][self.schedule], **self.labels}
        return {key: value for key, value in known.items() if value is not None}

    @property
    def plugins(self) -> tuple[str, ...]:
        own = _PLUGINS.get(self.schedule, _WHOLE_CARDS[self.edition])
        # Basic's installer runs on every node that shares.
        if (self.edition, self.schedule) == ("Basic", "share"):
            own = (*own, "cgpu-installer")
        return (*(own if self.has_plugins else ()), *self.extra_plugins)


def build_labelled_cluster(
    nodes: Iterable[LabelledNode], *, pods: Iterable[Json] = (), pools: Iterable[Json] | None = None
) -> Cluster:
    """Build the cluster that a command reads; without `pools` the operator is not installed."""
    listed = list(nodes)
    plugins = [build_plugin_pod(name, node.name) for node in listed for name in node.plugins]
    daemonsets = sorted({name for node in listed for name in node.plugins})
    cluster = build_found_cluster(
        nodes=[build_labelled_node(node) for node in listed],
        pods=[*plugins, *pods],
        daemonsets=[
            {"metadata": {"name": name, "namespace": "kube-system", "uid": name}}
            for name in daemonsets
        ],
        pools=pools or (),
    )
    return cluster if pools is not None else replace(cluster, pools=None)


def build_labelled_node(node: LabelledNode) -> Json:
    """Build the node as reported by its kubelet and its plugin."""
    offers = {"aliyun.com/gpu-mem": "15"} if node.schedule in SHARING else {"nvidia.com/gpu": "1"}
    if node.schedule == "core_mem":
        offers["aliyun.com/gpu-core.percentage"] = "100"
    if node.schedule == "topology":
        offers = {"aliyun.com/gpu": "1"}
    if node.schedule == "disabled" or not node.has_plugins:
        offers = {}
    return build_node(
        node.name, gpus=1, labels=node.all_labels, offers={**offers, **node.offers}, ready=True
    )


def build_plugin_pod(daemonset: str, node: str) -> Json:
    """Build a Ready pod of a node component."""
    owner = {"kind": "DaemonSet", "name": daemonset, "uid": daemonset, "controller": True}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": _STARTED}
    return {
        "metadata": {
            "namespace": "kube-system",
            "name": f"{daemonset}-{node}",
            "uid": f"{daemonset}-{node}",
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "conditions": [ready]},
    }
