"""A cluster as commands read it: objects as JSON, cut to the fields that a snapshot keeps.

A command never sees more than that, so what it says of a cluster it says of its snapshot too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from gpushare import names
from gpushare.api.k8s.daemonset import NVIDIA_CONTAINERS
from gpushare.api.k8s.node import parse_resource_slice
from gpushare.api.k8s.pod import parse_pod
from gpushare.api.k8s.pod_request import read_pod_request
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.api.k8s.unhealthy_cards import parse_unhealthy_cards
from gpushare.api.pruned.fields import KEPT
from gpushare.api.pruned.keep import MalformedFieldError, keep

Json = dict[str, Any]


class Kind(StrEnum):
    """What can be read of a cluster; the keys of a snapshot."""

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


REFUSABLE = (Kind.CONFIGMAPS, Kind.RESOURCESLICES, Kind.RESOURCECLAIMS, Kind.PLUGINCONFIGS)
"""Those without which answers are still useful: they say what they lack."""
_PLANNED = (Kind.NODES, Kind.PODS, Kind.POOLS, Kind.DAEMONSETS)


class MalformedObjectError(ValueError):
    """Not what the API has of that kind: the message says which field is not."""


@dataclass(frozen=True, slots=True)
class Subject:
    """An object that is asked about."""

    kind: Kind
    name: str
    namespace: str = ""

    def is_it(self, raw: Json) -> bool:
        """Tell whether `raw` is the object."""
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
    """Those that have to do with GPUs, and those of the device plugins' DaemonSets."""
    pools: tuple[Json, ...] | None = ()
    """None where the cluster has no such API: the operator is not installed."""
    daemonsets: tuple[Json, ...] = ()
    """Of the device plugins' namespaces."""
    namespaces: tuple[Json, ...] = ()
    deployments: tuple[Json, ...] | None = ()
    """The operator's; None where they may not be read."""
    configmaps: tuple[Json, ...] = ()
    """Those that tell the scheduler extender of unhealthy cards."""
    resourceslices: tuple[Json, ...] = ()
    """Those by which NVIDIA's DRA driver gives out a node's cards."""
    resourceclaims: tuple[Json, ...] = ()
    """Those of all pods, by which drivers give out devices."""
    pluginconfigs: tuple[Json, ...] = ()
    """The ConfigMaps beside NVIDIA's device plugin, in the namespace that the operator's
    Deployments name; their DaemonSets and pods are among the others."""
    unread: Mapping[Kind, str] = field(default_factory=dict)
    """The API server's refusal, by kind that may not be listed; of such a kind there are only
    objects that were read by name."""

    @property
    def can_be_planned(self) -> bool:
        """Whether everything was listed that the planner needs."""
        return self.unread.keys().isdisjoint(_PLANNED)


def keep_object(kind: Kind, raw: Any) -> Json | None:
    """Cut `raw` to what is kept of its kind; None for what has nothing to do with GPUs.

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
    containers = (shape.spec and shape.spec.containers) or ()
    is_nvidias = any(each.name in NVIDIA_CONTAINERS for each in containers)
    # In which namespace NVIDIA's plugin is to be, is not known here.
    of_plugins = (names.PLUGIN_NAMESPACE, pod["metadata"]["namespace"] if is_nvidias else "")
    if parse_pod(pod, plugin_namespaces=of_plugins, for_users=True) is not None:
        return True
    request = read_pod_request(shape)
    # Who asks for a pool and forgot to ask for a GPU wants to know.
    return request.uses_gpu_unasked or bool(request.pool)


def _describe(kind: Kind, raw: Any) -> str:
    meta = raw.get("metadata") if isinstance(raw, Mapping) else None
    name = meta.get("name") if isinstance(meta, Mapping) else None
    return f"{kind}: item {name}" if isinstance(name, str) else f"{kind}: item without a name"
