"""A DaemonSet of the device plugins' namespace, and the standard name of one that is renamed.

Everything that is decided knows the DaemonSets by their standard names, those of ACK's charts. What
a cluster calls them is translated where pods and DaemonSets are read, and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from gpushare.api.k8s.node_selection import ANYWHERE, NodeSelection, read_node_selection
from gpushare.api.k8s.pod_shape import Spec

NONE_RENAMED: Mapping[str, str] = MappingProxyType({})
"""Of a cluster that has renamed none."""
FORMER = "former "
"""Before the standard name of a DaemonSet that has lost it; no DaemonSet is called like that."""


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """A DaemonSet, as far as it shows which plugin it runs."""

    name: str
    """What the cluster calls it."""
    images: frozenset[str] = frozenset()
    """The last part of each, without tag and digest."""
    selection: NodeSelection = ANYWHERE
    """On which nodes its pods run, taints aside."""
    is_critical: bool = False
    """Its pods have a system priority: no node that runs short evicts them ("Pod Priority and
    Preemption" in the Kubernetes documentation)."""


def parse_daemonset(raw: Mapping[str, Any]) -> DaemonSet:
    """Parse a DaemonSet from the API server's JSON."""
    spec = ((raw.get("spec") or {}).get("template") or {}).get("spec") or {}
    selecting = {key: spec.get(key) for key in ("nodeSelector", "affinity")}
    images = (each.get("image") or "" for each in spec.get("containers") or ())
    return DaemonSet(
        raw["metadata"]["name"],
        frozenset(map(shorten_image, images)),
        read_node_selection(msgspec.convert(selecting, Spec)),
        (spec.get("priorityClassName") or "").startswith("system-"),
    )


def shorten_image(image: str) -> str:
    """Return an image's name without registry, tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def list_standard_names(given: Mapping[str, str]) -> Mapping[str, str]:
    """Map the cluster's DaemonSet names to standard names; `given` maps the other way.

    A DaemonSet whose standard name was given to another is `FORMER`: it may still run that plugin,
    and nobody said that this one may be restarted.
    """
    former = {name: f"{FORMER}{name}" for name in given}
    return {**former, **{actual: name for name, actual in given.items()}}
