"""The configurations of a device plugin that reads its modes from a ConfigMap."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Entry:
    """What an entry of the ConfigMap stands for."""

    mode: str = ""
    """The name of the mode; empty where it is none."""
    error: str = ""
    """Why it is none."""


@dataclass(frozen=True, slots=True)
class PluginConfigs:
    """A ConfigMap with configurations of the plugin."""

    name: str
    texts: Mapping[str, str]
    """Its entries, by key."""
    read: Callable[[str, str], Entry] = field(compare=False)
    """Reads an entry by its key and text."""

    def find(self, key: str) -> Entry | None:
        """Read the entry under `key`; None where there is none."""
        text = self.texts.get(key)
        return self.read(key, text) if text is not None else None
