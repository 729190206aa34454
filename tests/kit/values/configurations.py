"""Builds nodes of NVIDIA's plugin that have loaded an entry of its ConfigMap."""

from typing import Any

from gpushare.api.k8s.daemonset import DaemonSet
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, ModeName, Pool
from gpushare.core.nodechange.reconcile_node import plan_node
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import NodePlan
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.plugin_config_map import parse_config, read_entry
from gpushare.editions.plugin_configs import PluginConfigs
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from tests.kit.values.objects import NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool

GPU, KEY, POOL = "nvidia.com/gpu", "nvidia.com/device-plugin.config", "gpushare.io/pool"
SLICES = f"version: v1\nsharing: {{timeSlicing: {{resources: [{{name: {GPU}, replicas: 4}}]}}}}\n"
EDITED = SLICES.replace("4", "8")
PLUGIN, DISCOVERY = "nvidia-device-plugin-daemonset", "gpu-feature-discovery"
PODS = (a_plugin_pod("p", daemonset=PLUGIN), a_plugin_pod("d", daemonset=DISCOVERY))
SHOWN = {f"{GPU}.count": "2", f"{GPU}.replicas": "4", f"{GPU}.sharing-strategy": "time-slicing"}
LOADED = parse_config("a", SLICES)


def context(
    text: str = SLICES,
    key: str = "a",
    *,
    config_map: str = "configs",
    namespace: str = "kube-system",
) -> ReconcileContext:
    """Build the context of an installation with this entry in the plugin's ConfigMap."""
    daemonsets = {
        DaemonSet("nvdp", standard=PLUGIN, config_map=config_map),
        DaemonSet("gfd", standard=DISCOVERY),
    }
    configs = {"configs": PluginConfigs("configs", {key: text}, read_entry)}
    return ReconcileContext(
        NOW,
        plugin_daemonsets=PluginDaemonSets(
            nvidia=frozenset(daemonsets), nvidia_namespace=namespace, configs=configs
        ),
    )


def build_pool(**spec: Any) -> Pool:
    policy = {key: spec.pop(key) for key in ("on_config_change",) if key in spec}
    return a_pool(edition="NVIDIA", nvidia={"config": "a", **policy}, **spec)


def node(labels: dict[str, str] | None = None, offered: int = 8, **more: Any) -> Node:
    return a_node(labels={**SHOWN, **(labels or {})}, allocatable={GPU: offered}, **more)


def member(schedule: ModeName = LOADED, /, **labels: str) -> Node:
    """Build a node of the pool that has loaded this configuration."""
    applied = LastApplied(
        pool="training", edition=Edition.NVIDIA, schedule=schedule, plugins={"p": 0}
    )
    records = NodeRecords(initial_values={KEY: None, POOL: None}, applied=applied)
    return node({KEY: "a", POOL: "training", **labels}, records=records)


def step(
    node: Node, *pods: Pod, pool: Pool | None = None, ctx: ReconcileContext | None = None
) -> NodePlan:
    snapshot = NodeSnapshot(node, (*PODS, *pods), parse_records(node))
    return plan_node(
        snapshot, pool or a_pool(edition="NVIDIA", nvidia={"config": "a"}), ctx or context()
    )


HOLDER = a_gpu_pod(requests={GPU: 1})
