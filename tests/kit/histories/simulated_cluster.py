"""A cluster in memory, as a value: what people, machines and the operator do to it.

Nothing happens by itself and nothing is random: each function makes one cluster out of another,
and `tests.kit.histories.simulated_kubelets` lets time pass.
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
"""That a plugin offers of each card."""
NVIDIA_PLUGIN, DISCOVERY = "nvidia-device-plugin-daemonset", "gpu-feature-discovery"
MPS_DAEMON = "nvidia-device-plugin-mps-control-daemon"
CONFIG, MPS_CAPABLE = names.LABEL_NVIDIA_CONFIG, "nvidia.com/mps.capable"
STARTING, STOPPING = timedelta(seconds=2), timedelta(seconds=1)


class Fault(StrEnum):
    """What is wrong with a node, until it is mended."""

    NEVER_READY = "its device plugin starts and never becomes Ready"
    SILENT_ZERO = "its device plugin is Ready and its resource stays 0"
    REFUSED = "writes to it are refused"
    PROTECTED = "a disruption budget forbids to evict its pods"
    JOBS_FAIL = "the Jobs of its teardown fail"
    MIG = "its cards are cut into MIG devices"


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet of the edition: where it runs, and the resource that its pods offer."""

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
"""Of NVIDIA's plugin, under the names that modes have here in every edition."""
SHOWN = {"default": ("1", "none"), "share": ("4", "time-slicing"), "cgpu": ("8", "mps")}
"""The replicas and the strategy that discovery writes."""
DISCOVERED = frozenset(
    {MPS_CAPABLE, *(f"{WHOLE}.{what}" for what in ("count", "replicas", "sharing-strategy"))}
)
"""The labels that it writes."""
CONFIG_MODES = {key: parse_config(key, text) for key, text in CONFIGS.items()}


def adapt_spec(spec: dict[str, object], *, is_new: bool) -> dict[str, object]:
    """What a pool of the NVIDIA edition may say of it; keys are called as modes are."""
    kept = {k: v for k, v in spec.items() if k not in ("device_plugin", "deletion_policy")}
    config = kept.pop("schedule", "share" if is_new else None)
    return kept if config is None else {**kept, "nvidia": {"config": config}}


def read_mode(edition: Edition, labels: Mapping[str, str]) -> str:
    """The mode that a plugin which starts now reads from its node's labels."""
    if edition is Edition.PROFESSIONAL:
        return labels.get(_MODE, "default")
    if edition is Edition.NVIDIA:
        return labels.get(CONFIG, "default")
    if labels.get(_CGPU) != "true":
        return "default"
    return "share" if labels.get(names.LABEL_CGPU_DISABLE_ISOLATION) == "true" else "cgpu"


@dataclass(frozen=True, slots=True)
class SimulatedPod:
    """A pod, and what its kubelet will do to it next."""

    pod: Pod
    due: datetime | None = None
    """When its next step is done: it is gone, runs, or is Ready."""
    read: str = ""
    """The mode that a device plugin read when it started; of a workload, the one that served it."""


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """A Job of a teardown, and when its pod has done its work."""

    job: Job
    due: datetime


@dataclass(frozen=True, slots=True)
class Cluster:
    """All that there is, at one moment."""

    edition: Edition = Edition.PROFESSIONAL
    now: datetime = NOW
    returning: timedelta = timedelta(seconds=5)
    """A plugin's pod that runs takes so long to be Ready."""
    reporting: timedelta = timedelta(seconds=3)
    """Kubelets report what a node offers so much later."""
    working: timedelta = timedelta(seconds=5)
    """The Jobs of teardowns take so long."""
    may_evict: bool = True
    """The operator's installation allows that pods are evicted."""
    may_tear_down: bool = True
    """It allows the Jobs of teardowns."""
    pools: Mapping[str, Pool] = field(default_factory=dict)
    freeze: Freeze | None = None
    """Of all pools."""
    nodes: Mapping[str, SimulatedNode] = field(default_factory=dict)
    pods: Mapping[str, SimulatedPod] = field(default_factory=dict)
    """By UID."""
    faults: Mapping[str, frozenset[Fault]] = field(default_factory=dict)
    reports: Mapping[str, datetime] = field(default_factory=dict)
    """By node whose offer changed, when its kubelet says so."""
    jobs: Mapping[str, SimulatedJob] = field(default_factory=dict)
    """By name."""
    modules: Mapping[str, bool] = field(default_factory=dict)
    """By node on which the cGPU kernel module is loaded, whether it is loaded in the next boot."""
    missing: frozenset[str] = frozenset()
    """DaemonSets that somebody took away."""
    serial: int = 0
    """Numbers given out so far: each UID and version is one of its own."""

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """As the API server shows them, in the order of the operator's caches."""
        found = (each.pod for each in self.pods.values() if each.pod.node == node)
        return tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name)))

    def suffers(self, node: str, fault: Fault) -> bool:
        return fault in self.faults.get(node, frozenset())


# What people and controllers do through the API server.


def put_node(cluster: Cluster, node: SimulatedNode) -> Cluster:
    """`node` in place of the one of its name; its version moves where anything changed."""
    if cluster.nodes.get(node.name) == node:
        return cluster
    serial = cluster.serial + 1
    nodes = {**cluster.nodes, node.name: replace(node, version=serial)}
    return replace(cluster, nodes=nodes, serial=serial)


def add_node(
    cluster: Cluster, name: str, labels: Mapping[str, str], machine: Machine = ONE_CARD
) -> Cluster:
    """A new machine that others labelled; its plugins come as the labels say."""
    node = SimulatedNode(name, uid=f"uid-{cluster.serial}-{name}", machine=machine)
    for key, value in {**machine.labels, **labels}.items():
        node = write_field(node, key, value, "kubelet")
    return put_node(cluster, node)


def remove_node(cluster: Cluster, name: str) -> Cluster:
    """A machine goes, with all that is on it."""
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
    """Somebody writes one field of a node, or takes it away."""
    return put_node(cluster, write_field(cluster.nodes[name], key, value, manager, cluster.now))


def cordon_as(cluster: Cluster, name: str, manager: str) -> Cluster:
    """Another manager applies the cordon, and owns it beside whoever did before."""
    node = cluster.nodes[name]
    kept = {key: each.value for key, each in node.fields.items() if manager in each.managers}
    return put_node(cluster, apply_fields(node, {**kept, CORDON: "true"}, manager))


def lift_cordon(cluster: Cluster, name: str) -> Cluster:
    """Everybody else gives their cordon up; ours stays."""
    node = cluster.nodes[name]
    for manager in node.owners(CORDON) - {names.FIELD_MANAGER}:
        kept = {k: f.value for k, f in node.fields.items() if manager in f.managers}
        node = apply_fields(node, {k: v for k, v in kept.items() if k != CORDON}, manager)
    if not node.owners(CORDON):
        node = write_field(node, CORDON, None, "kubectl-uncordon")
    return put_node(cluster, node)


def touch_node(cluster: Cluster, name: str) -> Cluster:
    """A write to the node that changes nothing of interest, such as a kubelet's."""
    node, serial = cluster.nodes[name], cluster.serial + 1
    nodes = {**cluster.nodes, name: replace(node, version=serial)}
    return replace(cluster, nodes=nodes, serial=serial)


def set_ready(cluster: Cluster, name: str, *, ready: bool) -> Cluster:
    """A node's kubelet goes, or comes back; while it is away none of its pods is Ready."""
    cluster = put_node(cluster, replace(cluster.nodes[name], ready=ready))
    for uid, each in plugins_on(cluster, name):
        if not ready and each.pod.ready:
            pod = replace(each.pod, ready=False, ready_since=None)
            cluster = put_pod(cluster, uid, replace(each, pod=pod, due=cluster.now + STARTING))
    return cluster


def reboot_node(cluster: Cluster, name: str) -> Cluster:
    """Workloads end, and the plugins' containers start anew."""
    node = cluster.nodes[name]
    cluster = put_node(cluster, replace(node, boot=node.boot + 1, ready=True))
    modules = {n: stays for n, stays in cluster.modules.items() if stays or n != name}
    cluster = replace(cluster, modules=modules)
    gone = {uid for uid, each in cluster.pods.items() if _is_workload(each, name)}
    cluster = replace(cluster, pods={u: each for u, each in cluster.pods.items() if u not in gone})
    return restart_containers(cluster, name)


def restart_containers(cluster: Cluster, name: str) -> Cluster:
    """The node's plugins restart in place, and read its labels again."""
    for uid, each in plugins_on(cluster, name):
        if each.pod.phase == "Running" and not each.pod.deleting:
            pod = replace(each.pod, ready=False, ready_since=None, restarts=each.pod.restarts + 1)
            read = read_mode(cluster.edition, cluster.nodes[name].labels)
            due = cluster.now + returning_on(cluster, name)
            cluster = put_pod(cluster, uid, SimulatedPod(pod, due, read))
    return cluster


def returning_on(cluster: Cluster, name: str) -> timedelta:
    """How long a plugin's pod that runs takes on this node to be Ready."""
    machine = cluster.nodes[name].machine
    return max(cluster.returning, timedelta(seconds=machine.returning_seconds))


def restart_kubelet(cluster: Cluster, name: str) -> Cluster:
    """The node's plugins read its labels again, and nothing tells of it."""
    read = read_mode(cluster.edition, cluster.nodes[name].labels)
    for uid, each in plugins_on(cluster, name):
        if each.pod.phase == "Running" and not each.pod.deleting:
            cluster = put_pod(cluster, uid, replace(each, read=read))
    return cluster


def bind_pod(cluster: Cluster, pod: Pod) -> Cluster:
    """The scheduler binds a pod, which its kubelet starts a little later."""
    return put_pod(cluster, pod.uid, SimulatedPod(pod, cluster.now + STARTING))


def end_pod(cluster: Cluster, uid: str) -> Cluster:
    return replace(cluster, pods={u: each for u, each in cluster.pods.items() if u != uid})


def delete_pod(cluster: Cluster, uid: str) -> Cluster:
    """A pod is asked to go, and goes once its kubelet has seen to it."""
    each = cluster.pods.get(uid)
    if each is None or each.pod.deleting:
        return cluster
    return put_pod(
        cluster,
        uid,
        replace(each, pod=replace(each.pod, deleting=True), due=cluster.now + STOPPING),
    )


def remove_module(cluster: Cluster, name: str) -> Cluster:
    """The files of a node's kernel module are removed; what is loaded stays for this boot."""
    is_loaded = name in cluster.modules
    return replace(cluster, modules={**cluster.modules, name: False}) if is_loaded else cluster


def set_daemonset(cluster: Cluster, name: str, *, present: bool) -> Cluster:
    """A DaemonSet is taken away, or put back."""
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
    """The last finalizer of a deleted pool is gone, and so is the pool."""
    return replace(cluster, pools={k: pool for k, pool in cluster.pools.items() if k != name})


# What the operator does.


def apply_node(cluster: Cluster, name: str, wanted: Mapping[str, str]) -> Cluster:
    """The operator's apply; annotations of ours that it leaves out go, whoever wrote them too."""
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
