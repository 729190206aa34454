"""The configurations of a device plugin that reads its modes from a ConfigMap."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PluginConfigs:
    """A ConfigMap with configurations of the plugin."""

    name: str
    modes: Mapping[str, str]
    """Names of modes, by key."""
    errors: Mapping[str, str]
    """By key, why its entry is no mode."""
