"""A cluster that shares GPUs, and a pod that wants in, as plain values. What a test generates, what
the card oracle judges, and what is written as manifests."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NODE_POOL_LABEL = "alibabacloud.com/nodepool-id"
POOL_LABEL = "gpushare.io/pool"
VERIFIED_LABEL = "gpushare.io/isolation-verified"
MODE_LABEL = "ack.node.gpu.schedule"
PLACEMENT_LABEL = "ack.node.gpu.placement"
HOSTNAME_LABEL = "kubernetes.io/hostname"
TAINT = "example.com/gpu"
"""With the pool's name as value, on all nodes of a pool that has taints."""

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
"""By edition and schedule: what stands on a node (the vendor's pages on labels of GPU nodes)."""
SHARING = frozenset({"share", "cgpu", "mps", "core_mem"})
"""Modes whose nodes offer gpu-mem."""

Requirement = tuple[str, str, tuple[str, ...]]
"""Key, operator and values of a requirement on a node's labels."""


@dataclass(frozen=True)
class Holder:
    name: str
    cards: Mapping[int, int]
    """Units by card."""
    is_terminating: bool = False


@dataclass(frozen=True)
class GpuNode:
    name: str
    cards: int
    card_memory: int
    """In the device plugin's unit, like every amount here."""
    holders: tuple[Holder, ...] = ()
    is_ready: bool = True
    is_cordoned: bool = False
    has_plugin: bool = True


@dataclass(frozen=True)
class GpuPool:
    """A pool with its nodes, all of which are as it says."""

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
    """Its nodes are, and it has its pods tolerate that."""
    waiting: tuple[int, ...] = ()
    """What pods ask for that were sent here and have no node yet."""

    @property
    def is_labelled(self) -> bool:
        """Whether its nodes carry its labels: Observe writes none."""
        return self.reconcile != "Observe"

    @property
    def node_pool(self) -> str:
        """The node pool that its nodes are of, by which it selects them."""
        return f"np-{self.name}"

    @property
    def mode_labels(self) -> Mapping[str, str]:
        return MODE_LABELS[self.edition][self.schedule]

    @property
    def node_labels(self) -> dict[str, str]:
        """What each of its nodes carries, but for its name."""
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
    """gpu-mem of each of its containers."""
    core: int = 0
    """Percent of a card's compute, asked for by its first container."""
    whole_cards: int = 0
    isolation: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of each of its containers."""
    wants_pool: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    selects: Mapping[str, str] = field(default_factory=dict)
    """Its nodeSelector."""
    terms: tuple[tuple[Requirement, ...], ...] = ()
    """Its required node affinity: terms are ORed, the requirements in one are ANDed."""
    node: str = ""
    is_daemon: bool = False
    is_queued: bool = False
    """By Kueue."""
    scheduler: str = "default-scheduler"
    opts_out: bool = False

    @property
    def memory(self) -> int:
        """What it asks of one card."""
        return sum(self.asks)

    @property
    def disables_isolation(self) -> bool:
        return self.environment.get("CGPU_DISABLE") in ("true", "1")


@dataclass(frozen=True)
class Application:
    pod: Applicant
    pools: tuple[GpuPool, ...]
    namespace: Mapping[str, str] = field(default_factory=dict)
    """Labels of its namespace."""
    denies: bool = False
    """The installation refuses pods that no pool takes."""
