"""The configurations of a device plugin that reads its modes from a ConfigMap."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpushare.api.nvidia_plugin import NvidiaConfig


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the ConfigMap, parsed."""

    config: NvidiaConfig | None = None
    """None where the entry can't be used."""
    error: str = ""
    """Why it can't be used."""


@dataclass(frozen=True, slots=True)
class PluginConfigs:
    """A ConfigMap with configurations of the plugin."""

    name: str
    texts: Mapping[str, str]
    """Entries by key."""
    read: Callable[[str, str], Entry] = field(compare=False)
    """Reads an entry by its key and text."""

    def find(self, key: str) -> Entry | None:
        """Read the entry under `key`; None where there is none."""
        text = self.texts.get(key)
        return self.read(key, text) if text is not None else None
