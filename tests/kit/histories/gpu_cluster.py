"""A cluster that shares GPUs, and a pod at admission, as plain values that a test generates, the
card oracle judges, and `gpu_cluster_manifests` builds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NODE_POOL_LABEL = "alibabacloud.com/nodepool-id"
POOL_LABEL = "gpushare.io/pool"
VERIFIED_LABEL = "gpushare.io/isolation-verified"
MODE_LABEL = "ack.node.gpu.schedule"
PLACEMENT_LABEL = "ack.node.gpu.placement"
HOSTNAME_LABEL = "kubernetes.io/hostname"
TAINT = "example.com/gpu"
"""Key of the taint of a tainted pool's nodes, whose value is the pool's name."""

MODE_LABELS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "Professional": {
        schedule: {MODE_LABEL: schedule}
        for schedule in ("default", "share", "cgpu", "core_mem", "mps", "topology", "disabled")
    },
    "Basic": {
        "default": {"cgpu": "false"},
        "share": {"cgpu": "true", "cgpu.disable.isolation": "true"},
        "cgpu": {"cgpu": "true", "cgpu.disable.isolation": "false"},
    },
    "OpenSource": {"default": {"gpushare": "false"}, "share": {"gpushare": "true"}},
}
"""Labels of a node by edition and schedule (the vendor's pages on labels of GPU nodes)."""
SHARING = frozenset({"share", "cgpu", "mps", "core_mem"})
"""Schedules whose nodes offer gpu-mem."""

Requirement = tuple[str, str, tuple[str, ...]]
"""Key, operator and values of a requirement on a node's labels."""


@dataclass(frozen=True)
class Holder:
    name: str
    cards: Mapping[int, int]
    """Allocated units by card."""
    is_terminating: bool = False


@dataclass(frozen=True)
class GpuNode:
    name: str
    cards: int
    card_memory: int
    """Memory of a card, in the device plugin's unit as all amounts here."""
    holders: tuple[Holder, ...] = ()
    is_ready: bool = True
    is_cordoned: bool = False
    has_plugin: bool = True


@dataclass(frozen=True)
class GpuPool:
    """A pool with its nodes, all in the pool's mode."""

    name: str
    nodes: tuple[GpuNode, ...]
    edition: str = "Professional"
    schedule: str = "cgpu"
    placement: str = ""
    priority: int = 100
    reconcile: str = "Enforce"
    is_deleting: bool = False
    selection: str = "Automatic"
    binding: str = "Pool"
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Labels that the namespaces of its pods must have."""
    pods: Mapping[str, str] = field(default_factory=dict)
    """Labels that its pods must have."""
    is_tainted: bool = False
    """Whether the nodes are tainted, and the pool adds a toleration to its pods."""
    waiting: tuple[int, ...] = ()
    """Requests of assigned pods that have no node yet."""

    @property
    def is_labelled(self) -> bool:
        """Whether the nodes have the pool's labels: Observe writes none."""
        return self.reconcile != "Observe"

    @property
    def node_pool(self) -> str:
        """Name of the node pool that the pool selects."""
        return f"np-{self.name}"

    @property
    def mode_labels(self) -> Mapping[str, str]:
        return MODE_LABELS[self.edition][self.schedule]

    @property
    def node_labels(self) -> dict[str, str]:
        """Labels of each node, without the node's name."""
        labels = {NODE_POOL_LABEL: self.node_pool, **self.mode_labels}
        if self.is_labelled:
            labels[POOL_LABEL] = self.name
            if self.schedule in ("cgpu", "core_mem"):
                labels[VERIFIED_LABEL] = "true"
        if self.placement:
            labels[PLACEMENT_LABEL] = self.placement
        return labels


@dataclass(frozen=True)
class Applicant:
    """A pod that is being created, as its owner wrote it."""

    asks: tuple[int, ...] = (4,)
    """gpu-mem of each container."""
    core: int = 0
    """Percent of a card's compute that the first container requests."""
    whole_cards: int = 0
    isolation: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of each container."""
    wants_pool: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    selects: Mapping[str, str] = field(default_factory=dict)
    """nodeSelector of the pod."""
    terms: tuple[tuple[Requirement, ...], ...] = ()
    """Required node affinity: terms are ORed, the requirements in one are ANDed."""
    node: str = ""
    is_daemon: bool = False
    is_queued: bool = False
    """Whether Kueue holds the pod back."""
    scheduler: str = "default-scheduler"
    opts_out: bool = False

    @property
    def memory(self) -> int:
        """Units that the pod requests of a card."""
        return sum(self.asks)

    @property
    def disables_isolation(self) -> bool:
        return self.environment.get("CGPU_DISABLE") in ("true", "1")


@dataclass(frozen=True)
class Application:
    pod: Applicant
    pools: tuple[GpuPool, ...]
    namespace: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pod's namespace."""
    denies: bool = False
    """Whether the installation refuses pods that no pool accepts."""
