"""A cluster in memory as a value, with actions of users, machines and the operator.

Nothing is random: each function makes a cluster out of another, and
`tests.kit.histories.simulated_kubelets` lets time pass.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gpushare import names
from gpushare.api.k8s.job import Job
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool
from gpushare.api.windows import Freeze
from gpushare.editions.plugin_config_map import parse_config
from tests.kit.histories.field_ownership import (
    CORDON,
    SimulatedNode,
    apply_fields,
    release_fields,
    write_field,
)
from tests.kit.histories.machine import CARD_MEMORY, ONE_CARD, Machine
from tests.kit.values.objects import NOW

INSTALLER = "cgpu-installer"
MEMORY, WHOLE = names.RESOURCE_GPU_MEMORY, names.RESOURCE_WHOLE_GPU
AMOUNTS = {MEMORY: CARD_MEMORY, WHOLE: 1}
"""Amounts that a plugin offers for each card."""
NVIDIA_PLUGIN, DISCOVERY = "nvidia-device-plugin-daemonset", "gpu-feature-discovery"
MPS_DAEMON = "nvidia-device-plugin-mps-control-daemon"
CONFIG, MPS_CAPABLE = names.LABEL_NVIDIA_CONFIG, "nvidia.com/mps.capable"
STARTING, STOPPING = timedelta(seconds=2), timedelta(seconds=1)


class Fault(StrEnum):
    """A fault of a node, until it is repaired."""

    NEVER_READY = "its device plugin starts and never becomes Ready"
    SILENT_ZERO = "its device plugin is Ready and its resource stays 0"
    REFUSED = "writes to it are refused"
    PROTECTED = "a disruption budget forbids to evict its pods"
    JOBS_FAIL = "the Jobs of its teardown fail"
    MIG = "its cards are cut into MIG devices"


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet of the edition, with its nodes and the resource that its pods offer."""

    key: str
    values: frozenset[str]
    resource: str = ""


def _on(key: str, *values: str, offers: str = "") -> DaemonSet:
    return DaemonSet(key, frozenset(values), offers)


_MODE, _CGPU = names.LABEL_SCHEDULE, names.LABEL_CGPU
DAEMONSETS: Mapping[Edition, Mapping[str, DaemonSet]] = {
    Edition.PROFESSIONAL: {
        "gpushare-device-plugin-ds": _on(_MODE, "share", "cgpu", offers=MEMORY),
        INSTALLER: _on(_MODE, "cgpu"),
        "ack-nvidia-device-plugin": _on(_MODE, "default", offers=WHOLE),
    },
    Edition.BASIC: {
        "gpushare-device-plugin-ds": _on(_CGPU, "true", offers=MEMORY),
        INSTALLER: _on(_CGPU, "true"),
        # It puts the whole-card plugin's static pod back, which stands for both here.
        "device-plugin-recover-ds": _on(_CGPU, "false", offers=WHOLE),
    },
    Edition.NVIDIA: {
        NVIDIA_PLUGIN: _on("group", "a", "b", offers=WHOLE),
        DISCOVERY: _on("group", "a", "b"),
        MPS_DAEMON: _on(MPS_CAPABLE, "true"),
    },
}


def _build_config(strategy: str = "", replicas: int = 1) -> str:
    shared = f"{{resources: [{{name: {WHOLE}, replicas: {replicas}}}]}}"
    return f"version: v1\nsharing: {{{strategy}: {shared}}}" if strategy else "version: v1"


CONFIGS = {
    "default": _build_config(),
    "share": _build_config("timeSlicing", 4),
    "cgpu": _build_config("mps", 8),
}
"""Entries of NVIDIA's plugin, by the names of modes in all editions here."""
SHOWN = {"default": ("1", "none"), "share": ("4", "time-slicing"), "cgpu": ("8", "mps")}
"""Replicas and strategy in labels of GPU feature discovery."""
DISCOVERED = frozenset(
    {MPS_CAPABLE, *(f"{WHOLE}.{what}" for what in ("count", "replicas", "sharing-strategy"))}
)
"""Labels that GPU feature discovery writes."""
CONFIG_MODES = {key: parse_config(key, text) for key, text in CONFIGS.items()}


def adapt_spec(spec: dict[str, object], *, is_new: bool) -> dict[str, object]:
    """Adapt a spec to the NVIDIA edition; keys are named like modes."""
    kept = {k: v for k, v in spec.items() if k not in ("device_plugin", "deletion_policy")}
    config = kept.pop("schedule", "share" if is_new else None)
    return kept if config is None else {**kept, "nvidia": {"config": config}}


def read_mode(edition: Edition, labels: Mapping[str, str]) -> str:
    """Read the mode of a plugin that starts now from its node's labels."""
    if edition is Edition.PROFESSIONAL:
        return labels.get(_MODE, "default")
    if edition is Edition.NVIDIA:
        return labels.get(CONFIG, "default")
    if labels.get(_CGPU) != "true":
        return "default"
    return "share" if labels.get(names.LABEL_CGPU_DISABLE_ISOLATION) == "true" else "cgpu"


@dataclass(frozen=True, slots=True)
class SimulatedPod:
    """A pod, with the kubelet's next action."""

    pod: Pod
    due: datetime | None = None
    """Time of its next state: gone, running, or Ready."""
    read: str = ""
    """Mode that a device plugin read at its start, or that served a workload."""


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A Job of a teardown, and the time of its completion."""

    job: Job
    due: datetime


@dataclass(frozen=True, slots=True)
class Cluster:
    """The state of the cluster at a moment."""

    edition: Edition = Edition.PROFESSIONAL
    now: datetime = NOW
    returning: timedelta = timedelta(seconds=5)
    """Time from a running plugin pod to a Ready one."""
    reporting: timedelta = timedelta(seconds=3)
    """Delay of the kubelets' reports of resources."""
    working: timedelta = timedelta(seconds=5)
    """Duration of the Jobs of teardowns."""
    may_evict: bool = True
    """Whether the installation allows evictions."""
    may_tear_down: bool = True
    """Whether the installation allows the Jobs of teardowns."""
    pools: Mapping[str, Pool] = field(default_factory=dict)
    freeze: Freeze | None = None
    """Freeze of all pools."""
    nodes: Mapping[str, SimulatedNode] = field(default_factory=dict)
    pods: Mapping[str, SimulatedPod] = field(default_factory=dict)
    """Pods by UID."""
    faults: Mapping[str, frozenset[Fault]] = field(default_factory=dict)
    reports: Mapping[str, datetime] = field(default_factory=dict)
    """Times of the kubelets' next reports, by node with changed resources."""
    jobs: Mapping[str, SimulatedJob] = field(default_factory=dict)
    """Jobs by name."""
    modules: Mapping[str, bool] = field(default_factory=dict)
    """Nodes with a loaded cGPU kernel module, and whether the next boot loads it."""
    missing: frozenset[str] = frozenset()
    """Deleted DaemonSets."""
    serial: int = 0
    """Last number used for UIDs and versions."""

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods of a node, in the order of the operator's caches."""
        pods = (each.pod for each in self.pods.values() if each.pod.node == node)
        return tuple(sorted(pods, key=lambda pod: (pod.namespace, pod.name)))

    def suffers(self, node: str, fault: Fault) -> bool:
        return fault in self.faults.get(node, frozenset())


# What people and controllers do through the API server.


def put_node(cluster: Cluster, node: SimulatedNode) -> Cluster:
    """Replace the node of the same name; its version increases where anything changed."""
    if cluster.nodes.get(node.name) == node:
        return cluster
    serial = cluster.serial + 1
    nodes = {**cluster.nodes, node.name: replace(node, version=serial)}
    return replace(cluster, nodes=nodes, serial=serial)


def add_node(
    cluster: Cluster, name: str, labels: Mapping[str, str], machine: Machine = ONE_CARD
) -> Cluster:
    """Add a machine with labels of others, and plugins by the labels."""
    node = SimulatedNode(name, uid=f"uid-{cluster.serial}-{name}", machine=machine)
    for key, value in {**machine.labels, **labels}.items():
        node = write_field(node, key, value, "kubelet")
    return put_node(cluster, node)


def remove_node(cluster: Cluster, name: str) -> Cluster:
    """Remove a machine with all its pods."""
    return replace(
        cluster,
        nodes={other: node for other, node in cluster.nodes.items() if other != name},
        pods={uid: each for uid, each in cluster.pods.items() if each.pod.node != name},
        faults={other: faults for other, faults in cluster.faults.items() if other != name},
        reports={other: due for other, due in cluster.reports.items() if other != name},
        jobs={other: each for other, each in cluster.jobs.items() if each.job.node != name},
        modules={other: stays for other, stays in cluster.modules.items() if other != name},
    )


def write_node(
    cluster: Cluster, name: str, key: str, value: str | None, manager: str = "kubectl-edit"
) -> Cluster:
    """Write or remove a field of a node as another manager."""
    return put_node(cluster, write_field(cluster.nodes[name], key, value, manager, cluster.now))


def cordon_as(cluster: Cluster, name: str, manager: str) -> Cluster:
    """Apply the cordon as another manager, which shares its ownership."""
    node = cluster.nodes[name]
    kept = {key: each.value for key, each in node.fields.items() if manager in each.managers}
    return put_node(cluster, apply_fields(node, {**kept, CORDON: "true"}, manager))


def lift_cordon(cluster: Cluster, name: str) -> Cluster:
    """Remove the cordon of all other managers; ours stays."""
    node = cluster.nodes[name]
    for manager in node.owners(CORDON) - {names.FIELD_MANAGER}:
        kept = {k: f.value for k, f in node.fields.items() if manager in f.managers}
        node = apply_fields(node, {k: v for k, v in kept.items() if k != CORDON}, manager)
    if not node.owners(CORDON):
        node = write_field(node, CORDON, None, "kubectl-uncordon")
    return put_node(cluster, node)


def touch_node(cluster: Cluster, name: str) -> Cluster:
    """Write an irrelevant field of the node, as its kubelet does."""
    node, serial = cluster.nodes[name], cluster.serial + 1
    nodes = {**cluster.nodes, name: replace(node, version=serial)}
    return replace(cluster, nodes=nodes, serial=serial)


def set_ready(cluster: Cluster, name: str, *, ready: bool) -> Cluster:
    """Stop or start a node's kubelet; without it no pod of the node is Ready."""
    cluster = put_node(cluster, replace(cluster.nodes[name], ready=ready))
    for uid, each in plugins_on(cluster, name):
        if not ready and each.pod.ready:
            pod = replace(each.pod, ready=False, ready_since=None)
            cluster = put_pod(cluster, uid, replace(each, pod=pod, due=cluster.now + STARTING))
    return cluster


def reboot_node(cluster: Cluster, name: str) -> Cluster:
    """Reboot a node: workloads end, and the plugins' containers start again."""
    node = cluster.nodes[name]
    cluster = put_node(cluster, replace(node, boot=node.boot + 1, ready=True))
    modules = {n: stays for n, stays in cluster.modules.items() if stays or n != name}
    cluster = replace(cluster, modules=modules)
    gone = {uid for uid, each in cluster.pods.items() if _is_workload(each, name)}
    cluster = replace(cluster, pods={u: each for u, each in cluster.pods.items() if u not in gone})
    return restart_containers(cluster, name)


def restart_containers(cluster: Cluster, name: str) -> Cluster:
    """Restart the node's plugins in place, so that they read its labels again."""
    for uid, each in plugins_on(cluster, name):
        if each.pod.phase == "Running" and not each.pod.deleting:
            pod = replace(each.pod, ready=False, ready_since=None, restarts=each.pod.restarts + 1)
            read = read_mode(cluster.edition, cluster.nodes[name].labels)
            due = cluster.now + returning_on(cluster, name)
            cluster = put_pod(cluster, uid, SimulatedPod(pod, due, read))
    return cluster


def returning_on(cluster: Cluster, name: str) -> timedelta:
    """Return the time from a running plugin pod to a Ready one on this node."""
    machine = cluster.nodes[name].machine
    return max(cluster.returning, timedelta(seconds=machine.returning_seconds))


def restart_kubelet(cluster: Cluster, name: str) -> Cluster:
    """Restart the kubelet, so that plugins read the node's labels again without a sign."""
    read = read_mode(cluster.edition, cluster.nodes[name].labels)
    for uid, each in plugins_on(cluster, name):
        if each.pod.phase == "Running" and not each.pod.deleting:
            cluster = put_pod(cluster, uid, replace(each, read=read))
    return cluster


def bind_pod(cluster: Cluster, pod: Pod) -> Cluster:
    """Bind a pod, which the kubelet starts a little later."""
    return put_pod(cluster, pod.uid, SimulatedPod(pod, cluster.now + STARTING))


def end_pod(cluster: Cluster, uid: str) -> Cluster:
    return replace(cluster, pods={u: each for u, each in cluster.pods.items() if u != uid})


def delete_pod(cluster: Cluster, uid: str) -> Cluster:
    """Delete a pod, which is gone once its kubelet has ended it."""
    each = cluster.pods.get(uid)
    if each is None or each.pod.deleting:
        return cluster
    return put_pod(
        cluster,
        uid,
        replace(each, pod=replace(each.pod, deleting=True), due=cluster.now + STOPPING),
    )


def remove_module(cluster: Cluster, name: str) -> Cluster:
    """Remove the files of a node's kernel module; a loaded module stays for this boot."""
    is_loaded = name in cluster.modules
    return replace(cluster, modules={**cluster.modules, name: False}) if is_loaded else cluster


def set_daemonset(cluster: Cluster, name: str, *, present: bool) -> Cluster:
    """Delete or create a DaemonSet."""
    return replace(
        cluster, missing=cluster.missing - {name} if present else cluster.missing | {name}
    )


def set_fault(cluster: Cluster, name: str, fault: Fault, *, present: bool) -> Cluster:
    faults = cluster.faults.get(name, frozenset())
    faults = faults | {fault} if present else faults - {fault}
    return replace(cluster, faults={**cluster.faults, name: faults})


def put_pool(cluster: Cluster, pool: Pool) -> Cluster:
    return replace(cluster, pools={**cluster.pools, pool.name: pool})


def drop_pool(cluster: Cluster, name: str) -> Cluster:
    """Remove a deleted pool whose last finalizer is gone."""
    return replace(cluster, pools={k: pool for k, pool in cluster.pools.items() if k != name})


# What the operator does.


def apply_node(cluster: Cluster, name: str, wanted: Mapping[str, str]) -> Cluster:
    """Apply as the operator; omitted annotations of ours go, also where others own them."""
    node = apply_fields(cluster.nodes[name], wanted)
    left_over = names.NODE_ANNOTATIONS & node.fields.keys() - wanted.keys()
    for key in sorted(left_over):
        node = write_field(node, key, None, names.FIELD_MANAGER)
    return put_node(cluster, node)


def release_node(cluster: Cluster, name: str, removed: Mapping[str, str]) -> Cluster:
    return put_node(cluster, release_fields(cluster.nodes[name], removed))


def plugins_on(cluster: Cluster, name: str) -> Iterator[tuple[str, SimulatedPod]]:
    for uid, each in cluster.pods.items():
        if each.pod.node == name and each.pod.daemonset:
            yield uid, each


def _is_workload(each: SimulatedPod, node: str) -> bool:
    return each.pod.node == node and not each.pod.daemonset


def put_pod(cluster: Cluster, uid: str, each: SimulatedPod) -> Cluster:
    return replace(cluster, pods={**cluster.pods, uid: each})
