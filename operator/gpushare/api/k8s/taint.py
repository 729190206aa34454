"""Taints of nodes, and the pods that tolerate them.

"Taints and Tolerations" in the Kubernetes documentation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PREFER = "PreferNoSchedule"
"""The one effect that keeps nobody away."""
CORDON = "node.kubernetes.io/unschedulable"
NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint, which keeps pods off a node that do not tolerate it."""

    key: str
    effect: str = "NoSchedule"
    value: str = ""

    def __str__(self) -> str:
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


def parse_taints(raw: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Parse the taints in a Node's JSON that keep pods away."""
    taints = (raw.get("spec") or {}).get("taints") or ()
    found = (Taint(taint["key"], taint["effect"], taint.get("value") or "") for taint in taints)
    return tuple(taint for taint in found if taint.effect != PREFER)


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Taint) -> bool:
    """Tell whether a pod with these `tolerations` may run on a node with `taint`."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def _matches(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if operator == "Exists":
        return key in ("", taint.key)
    return (
        operator == "Equal" and key == taint.key and (toleration.get("value") or "") == taint.value
    )
