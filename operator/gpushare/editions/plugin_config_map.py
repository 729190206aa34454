"""Reads the configurations of NVIDIA's device plugin: what the entries of a ConfigMap stand for.

Source: NVIDIA/k8s-device-plugin, api/config/v1.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import yaml

from gpushare import names
from gpushare.api.nvidia_plugin import CONFIG_PREFIX
from gpushare.editions.nvidia import MPS, NONE, TIME_SLICING
from gpushare.editions.plugin_configs import PluginConfigs

_CARDS = names.RESOURCE_WHOLE_GPU
MAX_CHARACTERS = 16_384
"""Of an entry that is read: one of the plugin's has a few hundred."""


def parse_configs(raw: Mapping[str, Any]) -> PluginConfigs:
    """Parse a ConfigMap from the API server's JSON; of one with other content all are errors."""
    modes, errors = {}, {}
    for key, text in (raw.get("data") or {}).items():
        try:
            modes[key] = name_mode(key, text)
        except ValueError as error:
            errors[key] = str(error)
    return PluginConfigs(raw["metadata"]["name"], modes, errors)


def name_mode(key: str, text: str) -> str:
    """Name the mode that the entry `text` of the ConfigMap stands for.

    Raises ValueError where the plugin would not start with it, or shares other than whole cards.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"it has more than {MAX_CHARACTERS} characters")
    if "<<" in text:
        # A few of them, one in another, would be merged for hours.
        raise ValueError("YAML's merge key << is not read")
    try:
        config = yaml.safe_load(text) or {}
        if config.get("version") not in (None, "", "v1"):
            raise ValueError(f"version {config['version']} is not v1")
        strategy, replicas, renamed = _read_sharing(config.get("sharing") or {})
    except (yaml.YAMLError, AttributeError, TypeError, KeyError, ArithmeticError) as error:
        raise ValueError(f"it can't be read ({error})") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    shared = "" if strategy == NONE else f"={replicas}{',renamed' if renamed else ''}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{CONFIG_PREFIX}{key},{strategy}{shared},hash={digest}"


def _add_prefix(name: str) -> str:
    return name if name.startswith(names.NVIDIA_PREFIX) else f"{names.NVIDIA_PREFIX}{name}"


def _read_sharing(sharing: Mapping[str, Any]) -> tuple[str, int, bool]:
    """Read strategy, replicas and whether the resource is renamed (api/config/v1/sharing.go)."""
    for strategy, field in ((MPS, "mps"), (TIME_SLICING, "timeSlicing")):
        found = sharing.get(field)
        if not found:
            continue
        replicas = {_add_prefix(each["name"]): each["replicas"] for each in found["resources"]}
        if not replicas or any(not isinstance(n, int) or n < 2 for n in replicas.values()):
            raise ValueError("each of its resources must have 2 replicas or more")
        if replicas.keys() != {_CARDS} or replicas[_CARDS] > 9999:
            raise ValueError(f"it shares {', '.join(sorted(replicas))}, not {_CARDS} alone")
        return strategy, replicas[_CARDS], bool(found.get("renameByDefault"))
    return NONE, 1, False
