"""Reads the configurations of NVIDIA's device plugin: what the entries of a ConfigMap stand for.

Source: NVIDIA/k8s-device-plugin, api/config/v1.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from gpushare import names
from gpushare.api.nvidia_plugin import NvidiaConfig, SharingStrategy
from gpushare.editions.plugin_configs import Entry, PluginConfigs

_CARDS = names.RESOURCE_WHOLE_GPU
MAX_CHARACTERS = 4_096
"""Limit of an entry in characters; one of the plugin has a few hundred."""
_MAX_ERROR = 120
_ALIKE = "all cards of a node must have the same replicas"
_FIELDS = {SharingStrategy.TIME_SLICING: "timeSlicing", SharingStrategy.MPS: "mps"}


def parse_configs(raw: Mapping[str, Any]) -> PluginConfigs:
    """Parse a ConfigMap from the API server's JSON; its entries are read when they are needed."""
    texts = {key: text for key, text in (raw.get("data") or {}).items() if isinstance(text, str)}
    return PluginConfigs(raw["metadata"]["name"], texts, read_entry)


@lru_cache(maxsize=256)
def read_entry(key: str, text: str) -> Entry:
    """Read an entry, whatever is in it: who may write it must not stop the operator."""
    try:
        return Entry(parse_config(key, text))
    except (yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())
    except (LookupError, ArithmeticError, RecursionError) as error:
        why = type(error).__name__
    return Entry(error=why[:_MAX_ERROR])


def parse_config(key: str, text: str) -> NvidiaConfig:
    """Parse the configuration that the entry `text` of the ConfigMap stands for.

    Raises ValueError where the plugin would not start with it, or shares other than whole cards,
    and what YAML raises.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"it has more than {MAX_CHARACTERS} characters")
    if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
        # Few of them, one in another, stand for gigabytes.
        raise ValueError("YAML's aliases are not read")
    config = yaml.safe_load(text)
    if not isinstance({} if config is None else config, dict):
        raise ValueError("it is no mapping")
    config = config or {}
    if config.get("version") not in (None, "", "v1"):
        raise ValueError("its version is not v1")
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return NvidiaConfig(key, *_read_sharing(config), digest)


def _read_sharing(config: Mapping[str, Any]) -> tuple[SharingStrategy, int, bool]:
    """Read strategy, replicas and whether the resource is renamed (api/config/v1/sharing.go).

    The plugin loads both sections, and then MPS counts.
    """
    sharing = _find_mapping(config, "sharing")
    sections = {each: _find_mapping(sharing, field) for each, field in _FIELDS.items()}
    found = {
        strategy: _read_section(_FIELDS[strategy], section)
        for strategy, section in sections.items()
        if _FIELDS[strategy] in sharing
    }
    for strategy in (SharingStrategy.MPS, SharingStrategy.TIME_SLICING):
        if strategy in found:
            return strategy, *found[strategy]
    return SharingStrategy.NONE, 1, False


def _read_section(field: str, section: Mapping[str, Any]) -> tuple[int, bool]:
    resources = section.get("resources")
    if not isinstance(resources, list) or not resources:
        raise ValueError(f"sharing.{field} has no resources")
    path = f"sharing.{field}.resources"
    for index, each in enumerate(resources):
        if each.get("devices", "all") != "all":
            raise ValueError(f"{path}[{index}].devices is not all: {_ALIKE}")
    replicas = {_add_prefix(each["name"]): each["replicas"] for each in resources}
    if any(type(n) is not int or not 2 <= n <= 9999 for n in replicas.values()):
        raise ValueError("each resource must have 2 replicas or more")
    if replicas.keys() != {_CARDS}:
        raise ValueError(f"{path} has others than {_CARDS}")
    if len(resources) > 1:
        raise ValueError(f"{path}[1] has {_CARDS} again: {_ALIKE}")
    renames = section.get("renameByDefault", False)
    if not isinstance(renames, bool):
        raise ValueError("renameByDefault is not true or false")
    return replicas[_CARDS], renames


def _find_mapping(parent: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return a field that is a mapping, if it is there. The plugin takes it in any case of its
    letters, and this does not: ValueError for another spelling, and for what is no mapping."""
    if any(key != field and str(key).lower() == field.lower() for key in parent):
        raise ValueError(f"write {field} like that")
    if not isinstance(found := parent.get(field, {}), dict):
        raise ValueError(f"{field} is no mapping")
    return found


def _add_prefix(name: str) -> str:
    return name if name.startswith(names.NVIDIA_PREFIX) else f"{names.NVIDIA_PREFIX}{name}"
