"""A Pod, as far as decisions about nodes need it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpushare import names
from gpushare.api.node import parse_quantity


@dataclass(frozen=True, slots=True)
class Pod:
    """A projection of a Pod that asks for GPUs, selects a mode, or runs a node component."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    phase: str = "Pending"
    deleting: bool = False
    ready: bool = False
    ready_since: datetime | None = None
    restarts: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    """GPU resources that it asks for, summed over all containers."""
    selects: frozenset[tuple[str, str]] = frozenset()
    """Pool and mode labels, with the values that it needs its node to have."""
    requires_isolation: bool = False
    daemonset: str = ""
    """Name of the owning DaemonSet, where it is one of the plugins' namespace."""

    @property
    def is_live(self) -> bool:
        return self.phase not in ("Succeeded", "Failed")


def parse_pod(raw: dict[str, Any], *, plugin_namespace: str) -> Pod | None:
    """A Pod from the API server's JSON; None where no decision depends on it."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    requests = count_gpu_requests(spec)
    owner = next(
        (
            reference["name"]
            for reference in meta.get("ownerReferences") or ()
            if reference.get("kind") == "DaemonSet" and reference.get("controller")
        ),
        "",
    )
    # A DaemonSet's pods come and go with the label that they select; nobody has to wait for them.
    selects = frozenset() if owner else frozenset(_selections(spec))
    daemonset = owner if meta["namespace"] == plugin_namespace else ""
    if not (requests or selects or daemonset):
        return None
    status = raw.get("status") or {}
    ready_since = next(
        (
            condition.get("lastTransitionTime")
            for condition in status.get("conditions") or ()
            if condition.get("type") == "Ready" and condition.get("status") == "True"
        ),
        None,
    )
    annotations = meta.get("annotations") or {}
    return Pod(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        deleting="deletionTimestamp" in meta,
        ready=ready_since is not None,
        ready_since=datetime.fromisoformat(ready_since) if ready_since else None,
        restarts=sum(
            container.get("restartCount", 0) for container in status.get("containerStatuses") or ()
        ),
        requests=requests,
        selects=selects,
        requires_isolation=(
            annotations.get(names.ANNOTATION_ISOLATION) == names.ISOLATION_REQUIRED
        ),
        daemonset=daemonset,
    )


def count_gpu_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """GPU resources that a pod spec asks for, over containers and init containers."""
    totals: dict[str, int] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        for resource in names.GPU_RESOURCES & asked.keys():
            if amount := parse_quantity(asked[resource]):
                totals[resource] = totals.get(resource, 0) + amount
    return totals


_SELECTED = names.MODE_LABELS | {names.LABEL_POOL}


def _selections(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Node selector, and what required node affinity wants In; a mode given up breaks both."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if key in _SELECTED:
            yield key, value
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            if expression.get("key") in _SELECTED and expression.get("operator") == "In":
                for value in expression.get("values") or ():
                    yield expression["key"], value
