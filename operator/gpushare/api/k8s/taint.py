"""Taints and tolerations ("Taints and Tolerations" in the Kubernetes documentation)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

PREFER = "PreferNoSchedule"
"""The only effect that keeps no pod away."""
CONDITION_PREFIX = "node.kubernetes.io/"
"""Prefix of taints that Kubernetes adds for a node's conditions and cordon."""
CORDON = "node.kubernetes.io/unschedulable"
MIRRORED_KEYS = frozenset(
    {CORDON, "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
)
"""Keys of taints that the node lifecycle controller derives from the node's cordon and its
condition Ready (pkg/controller/nodelifecycle)."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint, which keeps pods without a matching toleration off a node."""

    key: str
    effect: str = "NoSchedule"
    value: str = ""

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


class Toleration(NamedTuple):
    """A toleration of taints; without a key or an effect it matches any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def matches(self, taint: Taint) -> bool:
        """Tell whether the toleration matches `taint`."""
        if self.effect not in ("", taint.effect):
            return False
        if self.operator == "Exists":
            return self.key in ("", taint.key)
        return self.operator == "Equal" and (self.key, self.value) == (taint.key, taint.value)


Tolerations = tuple[Toleration, ...]


def parse_taints(raw: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Parse the taints in a Node's JSON that keep pods away."""
    taints = (raw.get("spec") or {}).get("taints") or ()
    parsed = (Taint(taint["key"], taint["effect"], taint.get("value") or "") for taint in taints)
    return tuple(taint for taint in parsed if taint.effect != PREFER)


def parse_tolerations(raws: Iterable[Mapping[str, Any]]) -> Tolerations:
    """Parse the tolerations in a pod's spec."""
    return tuple(
        [
            Toleration(
                str(raw.get("key") or ""),
                str(raw.get("operator") or "Equal"),
                str(raw.get("value") or ""),
                str(raw.get("effect") or ""),
            )
            for raw in raws
        ]
    )


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Tell whether one of the tolerations matches `taint`."""
    return any(toleration.matches(taint) for toleration in tolerations)
