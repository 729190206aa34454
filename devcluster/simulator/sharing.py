"""Plays config-manager: a node's label selects a configuration in a ConfigMap.

Source: NVIDIA/k8s-device-plugin 0.20.0, `cmd/config-manager`, `api/config/v1`, `internal/lm`, and
tests with 0.19.3 (tests/node/nvidia_behaviours.py).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

import yaml

from devcluster import names
from devcluster.simulator.objects import Node, Pod

LEAST_REPLICAS = 2
_PREFIX = "nvidia.com/"
Strategy = Literal["none", "time-slicing", "mps"]
Configs = Mapping[str, Mapping[str, str]]  # data of ConfigMaps, by `namespace/name`
NO_CONFIGS: Configs = MappingProxyType({})


@dataclass(frozen=True)
class Config:
    """A configuration that a process has loaded; the default does not share cards."""

    label: str = ""  # the value of the node's label that its config-manager followed
    key: str = ""  # in the ConfigMap; empty for the empty configuration
    strategy: Strategy = "none"
    replicas: int = 1
    renamed: bool = False
    broken: bool = False  # nobody can read it: the process ends
    single: bool = False  # a container that asks for more than one is refused

    @property
    def resource(self) -> str:
        """Resource by which the cards are offered."""
        return names.SHARED_CARD if self.renamed else names.WHOLE_CARD

    def offer(self, cards: int) -> dict[str, int]:
        """Count the devices that the plugin registers; a resource without any is not registered."""
        return {} if self.broken else {self.resource: cards * self.replicas}

    def to_record(self) -> dict[str, Any]:
        """Build the configuration's part of the annotation `sim.devcluster/read`."""
        return asdict(self)


def read_at_start(pod: Pod, node: Node, configs: Configs) -> Config | None:
    """Return the configuration that a pod's init container selects; None where it fails.

    A pod without config-manager does not share cards, whatever the label. From 0.18.2 to 0.20.0 the
    init container does not wait for the label, and selects as without one (#1645): the sidecar
    follows the label some moments later, before the MPS daemon has started.
    """
    sees = node.sees_label or pod.component == names.MPS_DAEMON
    return _choose(pod, _read_label(node) if sees else "", configs)


def read_again(pod: Pod, node: Node, configs: Configs, before: Config) -> Config:
    """Return the configuration that a running process reads again.

    The sidecar changes the file only where the label has another value with an existing key. With
    an unknown key the sidecar ends, and selects as an init container does when it starts again.
    """
    new = _choose(pod, _read_label(node), configs)
    if new is None and not node.sees_label:
        new = read_at_start(pod, node, configs)
    if new is None or new.label == before.label:
        return _load(before.label, before.key, configs.get(pod.configs, {}))
    return new


def is_signalled(pod: Pod, node: Node, configs: Configs, before: Config) -> bool:
    """Tell whether a pod's process reads again: its sidecar signals it, or it has ended."""
    new = read_again(pod, node, configs, before)
    return new.key != before.key or (before.broken and not new.broken)


def is_refused(pod: Pod, node: Node, configs: Configs, before: Config) -> bool:
    """Tell whether a pod's sidecar is in a crash loop: the node's label has an unknown key."""
    label = _read_label(node)
    return label != before.label and _choose(pod, label, configs) is None


def is_unheard(pod: Pod, node: Node, configs: Configs) -> bool:
    """Tell whether the sidecar of an MPS daemon is in a crash loop, since it can't signal.

    The sidecar looks for a process of another name than the daemon's.
    """
    if pod.component != names.MPS_DAEMON or node.sees_label:
        return False
    first, then = (_choose(pod, label, configs) for label in ("", _read_label(node)))
    return (first and first.key) != (then and then.key)


def build_labels(config: Config, node: Node) -> dict[str, str]:
    """Build the labels of GPU feature discovery for a node; none without a card."""
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


def _read_label(node: Node) -> str:
    return node.labels.get(names.DEVICE_PLUGIN_CONFIG, "")


def _choose(pod: Pod, label: str, configs: Configs) -> Config | None:
    """Return the configuration for a label's value; None where config-manager fails."""
    if not pod.configs:
        return Config()
    data = configs.get(pod.configs, {})
    key = _choose_key(label or pod.default_config, data)
    return None if key is None else _load(label, key, data)


def _choose_key(label: str, data: Mapping[str, str]) -> str | None:
    """Return the key for a label's value, or without one by the fallbacks named, single, empty."""
    if not data or (label and label not in data):
        return None
    if label:
        return label
    if "default" in data:
        return "default"
    return next(iter(data)) if len(data) == 1 else ""


def _load(label: str, key: str, data: Mapping[str, str]) -> Config:
    """Load the configuration under a key, with the replicas of whole cards."""
    return _parse(label, key, data.get(key)) if key else Config(label)


def load_text(text: str) -> Config:
    """Parse the content of an entry."""
    return _parse("", "", text)


@lru_cache(maxsize=256)
def _parse(label: str, key: str, text: str | None) -> Config:
    if text is None:
        return Config(label, key, broken=True)
    try:
        return _read_sharing(Config(label, key), yaml.safe_load(text))
    except (yaml.YAMLError, KeyError, ValueError, TypeError, AttributeError):
        return Config(label, key, broken=True)


def _read_sharing(config: Config, raw: Any) -> Config:
    """Read as the plugin does: outer fields in any case, those of a section in the exact one.
    Raises an error for invalid content."""
    fields = _lower(raw)
    if fields.get("version") not in (None, "", "v1"):
        raise ValueError("unknown version")
    sharing = _lower(fields.get("sharing"))
    slices = _read_section(sharing["timeslicing"]) if "timeslicing" in sharing else None
    mps = _read_section(sharing["mps"]) if sharing.get("mps") is not None else None
    section = mps or slices
    if section is None or names.WHOLE_CARD not in section.replicas:
        return config
    return replace(
        config,
        strategy="mps" if mps else "time-slicing",
        replicas=section.replicas[names.WHOLE_CARD],
        renamed=section.renamed,
        single=bool(mps) if section.single is None else section.single,
    )


@dataclass(frozen=True)
class _Section:
    replicas: Mapping[str, int]
    renamed: bool
    single: bool | None


def _read_section(raw: Any) -> _Section:
    replicas: dict[str, int] = {}
    # Nothing under the name is as bad as no list.
    for each in raw["resources"]:
        name = each["name"] if "/" in each["name"] else f"{_PREFIX}{each['name']}"
        number = each["replicas"]
        if not name.startswith(_PREFIX) or int(number) != number or number < LEAST_REPLICAS:
            raise ValueError("no resource that could be shared")
        if (devices := each.get("devices", "all")) != "all" and isinstance(devices, str):
            raise ValueError("unknown devices")
        replicas[name] = max(int(number), replicas.get(name, 0))
    renamed = raw.get("renameByDefault")
    single = raw.get("failRequestsGreaterThanOne")
    if not replicas or not {type(renamed), type(single)} <= {bool, type(None)}:
        raise ValueError("no resources, or no boolean")
    return _Section(replicas, bool(renamed), single)


def _lower(raw: Any) -> dict[str, Any]:
    return {} if raw is None else {key.lower(): value for key, value in raw.items()}
