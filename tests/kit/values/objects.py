"""Builds nodes, pods and pools for unit tests."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gpushare import names
from gpushare.api.k8s.daemonset import DaemonSet
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, PoolSpec
from gpushare.api.status import PoolStatus
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.edition import GPUSHARE_PLUGIN
from gpushare.editions.plugin_daemonsets import PluginDaemonSets

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
MEMORY = names.RESOURCE_GPU_MEMORY
PRO_DAEMONSETS = frozenset(
    {GPUSHARE_PLUGIN, "cgpu-installer", "ack-nvidia-device-plugin", "gputopo-device-plugin-ds"}
)


def a_pool(
    name: str = "training", schedule: str = "cgpu", *, edition: str = "Professional", **more: Any
) -> Pool:
    """Build a pool of all nodes labelled `pool-of: NAME`, or of `nodes`."""
    top: dict[str, Any] = {
        key: more.pop(key)
        for key in (
            *("created", "deleting", "finalizers", "status", "generation", "retry"),
            *("start_now", "invalid_windows"),
        )
        if key in more
    }
    spec = {
        "nodes": {"selector": {"match_labels": {"group": "gpu"}}},
        "schedule": schedule,
        "edition": edition,
        **more,
    }
    values: dict[str, Any] = {
        "name": name,
        "uid": f"uid-of-{name}",
        "generation": 1,
        "created": NOW,
        "deleting": False,
        "finalizers": frozenset({names.FINALIZER}),
        "spec": PoolSpec.model_validate(spec),
        "status": PoolStatus(),
        **top,
    }
    return Pool(**values)


_ISOLATING: dict[tuple[str, str], dict[str, str]] = {
    ("Professional", "cgpu"): {"ack.node.gpu.schedule": "cgpu"},
    ("Professional", "core_mem"): {"ack.node.gpu.schedule": "core_mem"},
    ("Basic", "cgpu"): {"cgpu": "true", "cgpu.disable.isolation": "false"},
}
"""Labels of the modes that isolate by the kernel, by edition and mode."""


def _say_isolation(labels: Mapping[str, str], records: NodeRecords) -> dict[str, str]:
    """Build the label of verified isolation of a node with these records."""
    change, applied = records.change, records.applied
    mode, is_verified = ("", ""), False
    if change is not None and change.is_under_way and change.labelled_at is not None:
        mode = (change.edition, str(change.to))
    elif applied is not None:
        mode = (applied.edition, str(applied.schedule))
        is_verified = not applied.restart_pending and not applied.mode_unknown
    if mode in _ISOLATING:
        is_true = is_verified and _ISOLATING[mode].items() <= labels.items()
        return {"gpushare.io/isolation-verified": "true" if is_true else "false"}
    if any(isolating.items() <= labels.items() for isolating in _ISOLATING.values()):
        return {"gpushare.io/isolation-verified": "false"}
    return {}


def a_node(
    name: str = "gpu-1",
    labels: Mapping[str, str] | None = None,
    *,
    records: NodeRecords | None = None,
    owned: frozenset[str] | None = None,
    **more: Any,
) -> Node:
    """Build a ready GPU node in the group `gpu`; with `records` our labels are owned by us, and the
    label of verified isolation is set."""
    all_labels = {"group": "gpu", **(labels or {})}
    verified = _say_isolation(all_labels, records) if records else {}
    if owned != frozenset():
        all_labels = verified | all_labels
    annotations = records.annotations() if records else {}
    ours = frozenset(names.NODE_LABELS & all_labels.keys()) if records else frozenset()
    if owned:
        owned |= verified.keys()
    return Node(
        name=name,
        uid=f"uid-of-{name}",
        labels=all_labels,
        annotations=annotations,
        owned=(ours | annotations.keys()) if owned is None else owned,
        boot_id="boot-1",
        **{"provider_id": "cn-beijing.i-2ze1", "capacity": {MEMORY: 0}, **more},
    )


def a_gpu_pod(name: str = "train-1", *, node: str = "gpu-1", **more: Any) -> Pod:
    """Build a running pod with 4 GiB of GPU memory."""
    values: dict[str, Any] = {"phase": "Running", "requests": {MEMORY: 4}, **more}
    return Pod("default", name, f"uid-of-{name}", node=node, **values)


def a_plugin_pod(
    uid: str = "plugin-1", *, node: str = "gpu-1", daemonset: str = GPUSHARE_PLUGIN, **more: Any
) -> Pod:
    """Build a Ready pod of a node component."""
    values: dict[str, Any] = {"phase": "Running", "ready": True, "ready_since": NOW, **more}
    return Pod("kube-system", f"{daemonset}-{uid}", uid, node=node, daemonset=daemonset, **values)


def a_static_plugin(uid: str = "static-1", *, node: str = "gpu-1", **more: Any) -> Pod:
    """Build the Ready mirror pod of a whole-card plugin, a static pod."""
    values: dict[str, Any] = {"phase": "Running", "ready": True, "ready_since": NOW, **more}
    name = f"nvidia-device-plugin-{node}"
    return Pod(
        "kube-system", name, uid, node=node, is_static_plugin=True, is_evictable=False, **values
    )


def installed(daemonsets: Iterable[str]) -> PluginDaemonSets:
    """Build the DaemonSets with their names in ACK's charts."""
    present = frozenset(DaemonSet(name, is_critical=True) for name in daemonsets)
    return PluginDaemonSets(daemonsets=present)


PRO_INSTALLED = installed(PRO_DAEMONSETS)


def a_snapshot(
    *, pools: tuple[Pool, ...], nodes: tuple[Node, ...], pods: tuple[Pod, ...] = ()
) -> ClusterSnapshot:
    """Build a snapshot with the Professional edition's DaemonSets."""
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        by_node.setdefault(pod.node, []).append(pod)
    return ClusterSnapshot(
        pools=pools,
        nodes={node.name: node for node in nodes},
        pods=by_node,
        plugin_daemonsets=PRO_INSTALLED,
    )
