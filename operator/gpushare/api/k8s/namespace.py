"""A Namespace, as far as admission needs it."""

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
        """Whether its pods are left alone."""
        return self.labels.get(names.LABEL_INJECT) == names.INJECT_DISABLED

    @property
    def default_pool(self) -> str:
        """Name of the pool that its pods go to unless they ask for another; empty for none."""
        return self.labels.get(names.LABEL_DEFAULT_POOL, "")

    @property
    def on_no_pool(self) -> str:
        """`allow` or `deny`, where it says so; else empty, and the installation's word counts."""
        return self.labels.get(names.LABEL_ON_NO_POOL, "")


def parse_namespace(raw: Mapping[str, Any]) -> Namespace:
    """Parse a Namespace from the API server's JSON."""
    metadata = raw["metadata"]
    return Namespace(metadata["name"], dict(metadata.get("labels") or {}))
