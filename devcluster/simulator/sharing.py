"""What NVIDIA's components read: the configuration that a node's label chooses of a ConfigMap.

Source: NVIDIA/k8s-device-plugin 0.20.0, `cmd/config-manager`, `api/config/v1`, `internal/lm`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import yaml

from devcluster import names
from devcluster.simulator.objects import Node, Pod

LEAST_REPLICAS = 2
Strategy = Literal["none", "time-slicing", "mps"]
Configs = Mapping[str, Mapping[str, str]]  # data of ConfigMaps, by `namespace/name`
NO_CONFIGS: Configs = MappingProxyType({})


@dataclass(frozen=True)
class Config:
    """A configuration as a process has loaded it; the default shares nothing."""

    label: str = ""  # the value of the node's label that its config-manager followed
    key: str = ""  # in the ConfigMap; empty for the empty configuration
    strategy: Strategy = "none"
    replicas: int = 1
    renamed: bool = False
    broken: bool = False  # nobody can read it: the process ends

    @property
    def resource(self) -> str:
        """The name that the cards are offered under."""
        return names.SHARED_CARD if self.renamed else names.WHOLE_CARD

    def offer(self, cards: int) -> dict[str, int]:
        """Return the devices that the plugin registers; a name without any is not registered."""
        return {} if self.broken else {self.resource: cards * self.replicas}

    def to_record(self) -> dict[str, Any]:
        """Return its part of the annotation `sim.devcluster/read`."""
        return asdict(self)


def read_at_start(pod: Pod, node: Node, configs: Configs) -> Config | None:
    """Return what a pod's init container chooses; None where it fails, and nothing starts.

    A pod without config-manager shares nothing, whatever the label says.
    """
    if not pod.configs:
        return Config()
    data = configs.get(pod.configs, {})
    label = node.labels.get(names.DEVICE_PLUGIN_CONFIG, "")
    key = _choose_key(label, data)
    return None if key is None else _load(label, key, data)


def read_again(pod: Pod, node: Node, configs: Configs, before: Config) -> Config:
    """Return what a process reads that has run with another configuration, or the same.

    The sidecar has changed the file that it reads only where the label has another value, with a
    key that there is.
    """
    new = read_at_start(pod, node, configs)
    if new is None or new.label == before.label:
        return _load(before.label, before.key, configs.get(pod.configs, {}))
    return new


def is_signalled(pod: Pod, node: Node, configs: Configs, before: Config) -> bool:
    """Tell whether a pod's process is to read again: its sidecar signals it, or it has ended."""
    new = read_again(pod, node, configs, before)
    return new.key != before.key or (before.broken and not new.broken)


def is_refused(pod: Pod, node: Node, configs: Configs, before: Config) -> bool:
    """Tell whether a pod's sidecar ends, again and again: its node's label names no key."""
    label = node.labels.get(names.DEVICE_PLUGIN_CONFIG, "")
    return label != before.label and read_at_start(pod, node, configs) is None


def build_labels(config: Config, node: Node) -> dict[str, str]:
    """Return the labels that GPU feature discovery finds for a node; none without a card."""
    if not node.cards or config.broken:
        return {}
    product = node.labels.get(names.NVIDIA_NAME, "NVIDIA-GPU")
    is_marked = config.replicas > 1 and not config.renamed
    return {
        names.GPU_PRODUCT: f"{product}-SHARED" if is_marked else product,
        names.GPUS: str(node.cards),
        names.GPU_REPLICAS: str(config.replicas),
        names.SHARING_STRATEGY: config.strategy,
        names.MPS_CAPABLE: "true" if config.strategy == "mps" else "false",
    }


def _choose_key(label: str, data: Mapping[str, str]) -> str | None:
    """Return the key of a label's value, or of none: by the fallbacks named, single and empty."""
    if not data or (label and label not in data):
        return None
    if label:
        return label
    if "default" in data:
        return "default"
    return next(iter(data)) if len(data) == 1 else ""


def _load(label: str, key: str, data: Mapping[str, str]) -> Config:
    """Return the configuration under a key, with the replicas of whole cards in it."""
    return _parse(label, key, data.get(key)) if key else Config(label)


@lru_cache(maxsize=256)
def _parse(label: str, key: str, text: str | None) -> Config:
    if text is None:
        return Config(label, key, broken=True)
    try:
        sharing = (yaml.safe_load(text) or {}).get("sharing") or {}
        is_mps = sharing.get("mps") is not None
        section = sharing["mps"] if is_mps else sharing.get("timeSlicing") or {}
        replicas = {each["name"]: int(each["replicas"]) for each in section.get("resources") or ()}
        renamed = bool(section.get("renameByDefault"))
    except (yaml.YAMLError, KeyError, ValueError, TypeError, AttributeError):
        return Config(label, key, broken=True)
    if any(number < LEAST_REPLICAS for number in replicas.values()):
        return Config(label, key, broken=True)
    if names.WHOLE_CARD not in replicas:
        return Config(label, key)
    strategy: Strategy = "mps" if is_mps else "time-slicing"
    return Config(label, key, strategy, replicas[names.WHOLE_CARD], renamed)
