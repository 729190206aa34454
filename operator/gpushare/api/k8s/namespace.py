"""Parses a Namespace for admission."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gpushare import names

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace's name and labels."""

    name: str
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)

    @property
    def opts_out(self) -> bool:
        """Whether admission does not change the namespace's pods."""
        return self.labels.get(names.LABEL_INJECT) == names.INJECT_DISABLED

    @property
    def default_pool(self) -> str:
        """Name of the pool of pods that request none; empty where the namespace has none."""
        return self.labels.get(names.LABEL_DEFAULT_POOL, "")

    @property
    def on_no_pool(self) -> str:
        """`allow` or `deny` by the namespace's label; empty: the installation's setting counts."""
        return self.labels.get(names.LABEL_ON_NO_POOL, "")


def parse_namespace(raw: Mapping[str, Any]) -> Namespace:
    """Parse a Namespace from the API server's JSON."""
    metadata = raw["metadata"]
    return Namespace(metadata["name"], dict(metadata.get("labels") or {}))
