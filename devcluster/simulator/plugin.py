"""The components of the three editions by DaemonSet, and what they read."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from devcluster import names
from devcluster.simulator.faults import MIB_PER_GIB, Faults
from devcluster.simulator.objects import Node, parse_object
from devcluster.simulator.sharing import Config

Edition = Literal["OpenSource", "Basic", "Professional"]

PLUGINS: Mapping[str, tuple[str, ...]] = {
    "gpushare-device-plugin-ds": (names.GPU_MEM,),
    "gpushare-core-device-plugin-ds": (names.GPU_MEM, names.GPU_CORE),
    "gpushare-mps-device-plugin-ds": (names.GPU_MEM,),
    "gputopo-device-plugin-ds": (names.TOPOLOGY_CARD,),
    "ack-nvidia-device-plugin": (names.WHOLE_CARD,),
    names.STATIC_PLUGIN_POD: (names.WHOLE_CARD,),
    names.NVIDIA_PLUGIN: (names.WHOLE_CARD,),
    names.HAMI_PLUGIN: (names.WHOLE_CARD,),
}
_HAMI_SPLITS = 10  # of each card, unless its configuration says another devicesplitcount
INSTALLERS = frozenset({"cgpu-installer", "cgpu-core-installer"})
NVIDIA = frozenset({names.NVIDIA_PLUGIN, names.FEATURE_DISCOVERY, names.MPS_DAEMON})
EVICTOR = "device-plugin-evict-ds"  # takes the static whole-card plugin's manifest away
RECOVERER = "device-plugin-recover-ds"  # puts it back
MPS_CONTROL = "ack-mps-control"
STATIC_PLUGIN = "static"  # stands for a pod UID where the static plugin serves a resource

MODULE_NAME = "cgpu"
READ_LABELS = (names.SCHEDULE, names.CGPU, names.DISABLE_ISOLATION, names.GPUSHARE)


@dataclass(frozen=True)
class Read:
    """The part of a node that a component reads when it starts, and only then.

    Source: gpushare-device-plugin reads the label `cgpu.disable.isolation`, cards and unit once,
    between enumerating the cards and registering with the kubelet.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    module: str = ""
    config: Config = field(default_factory=Config)  # of NVIDIA's components

    @property
    def mode(self) -> str:
        """Mode of the Professional edition; empty for other editions."""
        return self.labels.get(names.SCHEDULE, "")

    @property
    def disables_isolation(self) -> bool:
        """Whether the plugin sets CGPU_DISABLE in every container; only "true" counts."""
        return not self.mode and self.labels.get(names.DISABLE_ISOLATION) == "true"

    def to_json(self) -> str:
        """Return the value of the annotation `sim.devcluster/read`."""
        record = {"labels": dict(self.labels), "module": self.module}
        if self.config != Config():
            record["config"] = self.config.to_record()
        return json.dumps(record, sort_keys=True)


def read_node(node: Node, module: str, config: Config) -> Read:
    """Read a node for a component that starts now."""
    labels = {key: node.labels[key] for key in READ_LABELS if key in node.labels}
    return Read(labels, module, config)


def parse_read(text: str | None) -> Read | None:
    """Parse the result of `Read.to_json`; None if there is none."""
    record = parse_object(text)
    if record is None:
        return None
    config = Config(**(record.get("config") or {}))
    return Read(record.get("labels") or {}, record.get("module") or "", config)


def offered(component: str, node: Node, read: Read, faults: Faults) -> dict[str, int]:
    """Count the devices that a plugin registers if it starts now, by resource.

    gpu-mem has one device per GiB (or MiB) of each card, compute one per percent, the rest one per
    card, times the replicas of NVIDIA's configuration.
    """
    memory = node.card_memory_gib * MIB_PER_GIB // faults.memory_unit_mib
    per_card = {names.GPU_MEM: memory, names.GPU_CORE: 100}
    cards = 0 if faults.no_cards else node.cards
    if component == names.NVIDIA_PLUGIN:
        return read.config.offer(cards)
    if component == names.HAMI_PLUGIN:
        cards *= _HAMI_SPLITS
    return {resource: cards * per_card.get(resource, 1) for resource in PLUGINS.get(component, ())}


def may_serve(component: str, node: Node) -> bool:
    """Tell whether a plugin serves on a node in its present mode.

    ACK's static pod is on every node and serves nodes without another mode; other components run
    only where their DaemonSet selects the node.
    """
    whole = node.labels.get(names.SCHEDULE, "default") == "default"
    return whole or component != names.STATIC_PLUGIN_POD


def find_edition(daemonsets: Iterable[str], before: Edition | None) -> Edition | None:
    """Tell the installed edition by the DaemonSets in kube-system.

    Without a DaemonSet of an edition, as in the middle of an installation, the edition is `before`.
    """
    present = set(daemonsets)
    if "ack-nvidia-device-plugin" in present:
        return "Professional"
    if RECOVERER in present:
        return "Basic" if present & INSTALLERS else "OpenSource"
    return before


def is_isolated(
    read: Read, env: Mapping[str, str], *, module: str, mps_running: bool, faults: Faults
) -> bool:
    """Tell whether a container that starts now is limited to its share of GPU memory.

    `env` is the container's whole environment, the plugin's part included: CGPU_DISABLE overrides
    the node (guide 001). Isolation needs the kernel module *and* a plugin that read an isolated
    mode. One that read `share` while the module was loaded does not end isolation (guide 002:
    cgpu -> share without a teardown), if `isolation_survives_share` says so.
    """
    if read.mode == "mps":
        return mps_running
    if not module or env.get(names.CGPU_DISABLE) in ("true", "1"):
        return False
    if read.mode in ("cgpu", "core_mem") or read.labels.get(names.CGPU) == "true":
        return True
    return read.mode == "share" and bool(read.module) and faults.isolation_survives_share
