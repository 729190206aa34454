"""The objects of a cluster that commands read, as JSON, cut to the fields that a snapshot keeps.

Commands never read more than that, so their answers for a cluster and its snapshot are equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from gpushare import names
from gpushare.api.k8s.daemonset import NVIDIA_CONTAINERS
from gpushare.api.k8s.dynamic_resources import parse_resource_slice
from gpushare.api.k8s.gpu_request import count_gpu_requests
from gpushare.api.k8s.node import parse_unhealthy_cards
from gpushare.api.k8s.pod import parse_pod
from gpushare.api.k8s.pod_request import read_pod_request
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.api.pruned.fields import KEPT
from gpushare.api.pruned.keep import MalformedFieldError, keep

Json = dict[str, Any]


class Kind(StrEnum):
    """Kinds of objects that commands read; the keys of a snapshot."""

    NODES = "nodes"
    PODS = "pods"
    POOLS = "pools"
    DAEMONSETS = "daemonsets"
    NAMESPACES = "namespaces"
    DEPLOYMENTS = "deployments"
    CONFIGMAPS = "configmaps"
    RESOURCESLICES = "resourceslices"
    RESOURCECLAIMS = "resourceclaims"
    PLUGINCONFIGS = "pluginconfigs"
    PODDISRUPTIONBUDGETS = "poddisruptionbudgets"


REFUSABLE = (
    *(Kind.CONFIGMAPS, Kind.RESOURCESLICES, Kind.RESOURCECLAIMS, Kind.PLUGINCONFIGS),
    Kind.PODDISRUPTIONBUDGETS,
)
"""Kinds without which answers are still useful, and mention what is missing."""
STATE_KINDS = tuple(kind for kind in Kind if kind is not Kind.PODDISRUPTIONBUDGETS)
"""Kinds that show the state of GPU sharing; the others matter only to who evicts pods."""
_PLANNED = (Kind.NODES, Kind.PODS, Kind.POOLS, Kind.DAEMONSETS)


class MalformedObjectError(ValueError):
    """The object is invalid for its kind; the message names the field."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of a user's question."""

    kind: Kind
    name: str
    namespace: str = ""

    def is_it(self, raw: Json) -> bool:
        """Tell whether `raw` is this object."""
        meta = raw["metadata"]
        return (meta["name"], meta.get("namespace") or "") == (self.name, self.namespace)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Objects of a cluster at about one moment, in the order of the API server.

    Kinds that were not asked for are empty.
    """

    taken_at: datetime
    nodes: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    """Pods that concern GPUs, and those of the device plugins' DaemonSets."""
    pools: tuple[Json, ...] | None = ()
    """GPUSharePools; None where the CRD, and so the operator, is not installed."""
    daemonsets: tuple[Json, ...] = ()
    """DaemonSets of the device plugins' namespaces."""
    namespaces: tuple[Json, ...] = ()
    deployments: tuple[Json, ...] | None = ()
    """Deployments of the operator; None where the right to read them is missing."""
    configmaps: tuple[Json, ...] = ()
    """ConfigMaps with the unhealthy cards of nodes, for the scheduler extender."""
    resourceslices: tuple[Json, ...] = ()
    """ResourceSlices by which NVIDIA's DRA driver gives out cards."""
    resourceclaims: tuple[Json, ...] = ()
    """ResourceClaims of all pods."""
    pluginconfigs: tuple[Json, ...] = ()
    """ConfigMaps in the namespace of NVIDIA's device plugin, which the operator's Deployments
    name; `daemonsets` and `pods` include those of the plugin."""
    poddisruptionbudgets: tuple[Json, ...] = ()
    """PodDisruptionBudgets of all namespaces."""
    unread: Mapping[Kind, str] = field(default_factory=dict)
    """The API server's refusals by kind that could not be listed; such a kind has only objects that
    were read by name."""

    @property
    def can_be_planned(self) -> bool:
        """Whether all kinds that the planner needs were listed."""
        return self.unread.keys().isdisjoint(_PLANNED)


def keep_object(kind: Kind, raw: Any) -> Json | None:
    """Cut an object to the kept fields of its kind; None for one that does not concern GPUs.

    Raises `MalformedObjectError`.
    """
    try:
        if not isinstance(raw, dict) or raw.get("metadata") is None:
            raise MalformedFieldError(": metadata is missing")
        kept: Json = keep(raw, KEPT[kind])
    except MalformedFieldError as error:
        raise MalformedObjectError(f"{_describe(kind, raw)}{error}") from error
    if kind is Kind.CONFIGMAPS and parse_unhealthy_cards(kept) is None:
        return None
    if kind is Kind.RESOURCESLICES and parse_resource_slice(kept) is None:
        return None
    return None if kind is Kind.PODS and not _concerns_gpus(kept) else kept


def _concerns_gpus(pod: Json) -> bool:
    shape = parse_pod_shape(pod)
    if shape.spec is not None and count_gpu_requests(shape.spec):
        return True
    containers = (shape.spec and shape.spec.containers) or ()
    is_nvidias = any(each.name in NVIDIA_CONTAINERS for each in containers)
    # The namespace of NVIDIA's plugin is not known here.
    of_plugins = (names.PLUGIN_NAMESPACE, pod["metadata"]["namespace"] if is_nvidias else "")
    if parse_pod(pod, plugin_namespaces=of_plugins, for_users=True) is not None:
        return True
    request = read_pod_request(shape)
    # A pod that requests a pool without a GPU is a mistake that a user wants to know.
    return request.uses_gpu_unasked or bool(request.pool)


def _describe(kind: Kind, raw: Any) -> str:
    meta = raw.get("metadata") if isinstance(raw, Mapping) else None
    name = meta.get("name") if isinstance(meta, Mapping) else None
    return f"{kind}: item {name}" if isinstance(name, str) else f"{kind}: item without a name"
