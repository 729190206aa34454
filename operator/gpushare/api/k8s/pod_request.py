"""Reads the requests of a Pod that has no node yet, and its owner's choices."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import msgspec

from gpushare import names
from gpushare.api.decision_annotation import parse_past_decision
from gpushare.api.k8s.card_annotations import parse_count
from gpushare.api.k8s.gpu_request import (
    NO_AMOUNTS,
    Amounts,
    add_up,
    asks_for_card_count,
    asks_for_other_gpu,
    count_card_memory,
    count_container,
    count_host_amounts,
    read_gpu_environment,
)
from gpushare.api.k8s.node_selection import (
    ANYWHERE,
    NodeSelection,
    Preferences,
    read_node_selection,
    read_preferences,
)
from gpushare.api.k8s.pod_shape import (
    MalformedPodError,
    Metadata,
    PodShape,
    Spec,
    parse_pod_shape,
)
from gpushare.api.k8s.taint import Tolerations, parse_tolerations
from gpushare.workload_kinds import HELD_BY_KUEUE

__all__ = [
    "UNSET",
    "MalformedPodError",
    "Placer",
    "PodInfo",
    "PodRequest",
    "encode_info",
    "parse_pod_request",
    "read_pod_info",
    "read_pod_request",
    "read_waiting_info",
]

_CORE = names.RESOURCE_GPU_CORE
_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_NO_METADATA = Metadata()
_NO_SPEC = Spec()


class Placer(StrEnum):
    """Object that chooses the node of a pod, as a clause."""

    DAEMONSET = "the pod's DaemonSet chooses the node"
    NODE_NAME = "the pod's nodeName sets the node"
    NODE_SELECTION = "the pod selects a node by name"
    KUEUE = "Kueue chooses the node"


class PodRequest(msgspec.Struct, frozen=True):
    """The fields of a pod that the choice of its pool depends on."""

    requests: Amounts = NO_AMOUNTS
    """Requested amounts of GPU resources, as kube-scheduler counts them."""
    shares: tuple[int, ...] = ()
    """Units of gpu-mem of each container that requests it."""
    cores: tuple[int, ...] = ()
    """Percent of a card's computing power of each container that requests it."""
    asked: frozenset[str] = frozenset()
    """Names of the requested GPU resources."""
    asks_for_share: bool = False
    """Whether the pod requests a part of a card."""
    memory: int = 0
    """Units of gpu-mem of the whole pod, as kube-scheduler counts them."""
    card_memory: int = 0
    """Units of gpu-mem of its cards, as the scheduler extender counts them."""
    card_count: int | None = 1
    """Number of cards over which the label spreads the memory (Professional); None if invalid."""
    wants_whole_card: bool = False
    """Whether the pod requires a card that no other pod shares (Professional)."""
    labels: Mapping[str, str] = _NO_LABELS
    inject: str = ""
    """Value of the annotation `gpushare.io/inject`; empty where there is none."""
    pool: str = ""
    """Name of the requested pool; empty where there is none."""
    isolation: str = ""
    """Value of the annotation `gpushare.io/isolation`; empty where there is none."""
    decided_pool: str = ""
    """Name of the pool in the annotation of a past decision; empty where there is none."""
    placer: Placer | None = None
    """Object that chooses the pod's node; None where the scheduler is free."""
    scheduler: str = names.DEFAULT_SCHEDULER
    selection: NodeSelection = ANYWHERE
    preferences: Preferences = ()
    disables_isolation: bool = False
    """Whether all containers that request shared GPU set CGPU_DISABLE (vendor's guide on cGPU)."""
    may_disable_isolation: bool = False
    """Whether one such container sets it, or to a value that is only known when it starts."""
    uses_gpu_unasked: bool = False
    """Whether a container's environment shows a GPU, and the pod requests none."""
    names_cards: bool = False
    """Whether a container names its visible cards by NVIDIA_VISIBLE_DEVICES."""
    is_gated: bool = False
    """Whether the pod has a scheduling gate."""
    asks_for_card_count: bool = False
    """Whether the pod requests the resource `aliyun.com/gpu-count`, which gives no card."""
    host_ipc: bool = False
    is_of_queued_job: bool = False
    """Whether Kueue holds the owner of the pod back, such as its Job, and may add to the pod's node
    selector."""

    @property
    def opts_out(self) -> bool:
        return self.inject == names.INJECT_DISABLED

    @property
    def requires_isolation(self) -> bool:
        return self.isolation == names.ISOLATION_REQUIRED

    def is_left_to_admission(self, schedulers: Collection[str]) -> bool:
        """Tell whether the pod requests shared GPU and admission chooses its nodes.

        `schedulers` are those that allocate GPU memory by card.
        """
        return (
            self.asks_for_share
            and self.placer is None
            and not self.opts_out
            and self.scheduler in schedulers
            and not self.selection.chosen_keys
        )


def parse_pod_request(raw: Mapping[str, Any]) -> PodRequest:
    """Parse a PodRequest from the JSON of a Pod under admission.

    Raises `MalformedPodError` for a field of another type than in the API.
    """
    return read_pod_request(parse_pod_shape(raw))


def read_pod_request(pod: PodShape) -> PodRequest:
    """Read a PodRequest from a pod's shape."""
    metadata, spec = pod.metadata or _NO_METADATA, pod.spec or _NO_SPEC
    annotations, labels = metadata.annotations or _NO_LABELS, metadata.labels or _NO_LABELS
    starting, running = spec.init_containers or (), spec.containers or ()
    containers = (*starting, *running)
    asked = [count_container(container) for container in containers]
    requests = add_up(asked[len(starting) :], starting, asked[: len(starting)])
    shares: list[int] = []
    disabling: list[bool] = []
    may_disable = names_cards = means_gpu = asks_for_cards = False
    for container, amounts in zip(containers, asked, strict=True):
        environment = read_gpu_environment(container)
        if names.RESOURCE_GPU_MEMORY in amounts:
            shares.append(amounts[names.RESOURCE_GPU_MEMORY])
        if not names.SHARED_RESOURCES.isdisjoint(amounts):
            disabling.append(environment.disables_isolation)
            may_disable |= environment.may_disable_isolation
        names_cards |= environment.names_cards
        means_gpu |= environment.means_gpu
        asks_for_cards |= asks_for_card_count(container)
    selection = read_node_selection(spec)
    past = parse_past_decision(annotations)
    return PodRequest(
        requests=requests,
        asked=frozenset(requests),
        asks_for_share=not names.SHARED_RESOURCES.isdisjoint(requests),
        memory=requests.get(names.RESOURCE_GPU_MEMORY, 0),
        card_memory=count_card_memory(asked[len(starting) :]),
        card_count=_count_cards(labels),
        wants_whole_card=labels.get(names.LABEL_CARD_PLACEMENT) == names.REQUIRE_WHOLE_DEVICE,
        shares=tuple(shares),
        cores=tuple(each[_CORE] for each in asked if _CORE in each),
        labels=labels,
        inject=annotations.get(names.ANNOTATION_INJECT, ""),
        pool=annotations.get(names.ANNOTATION_POOL, ""),
        isolation=annotations.get(names.ANNOTATION_ISOLATION, ""),
        decided_pool=(past and past.pool) or "",
        placer=_find_placer(metadata, spec, selection),
        scheduler=spec.scheduler_name or names.DEFAULT_SCHEDULER,
        selection=selection,
        preferences=read_preferences(spec),
        disables_isolation=bool(disabling) and all(disabling),
        may_disable_isolation=may_disable,
        uses_gpu_unasked=(
            means_gpu
            and not requests
            and not spec.resource_claims
            and not any(map(asks_for_other_gpu, containers))
        ),
        names_cards=names_cards,
        is_gated=bool(spec.scheduling_gates),
        asks_for_card_count=asks_for_cards,
        host_ipc=bool(spec.host_ipc),
        is_of_queued_job=names.LABEL_KUEUE_QUEUE in labels and _is_held_as_a_whole(metadata),
    )


def _count_cards(labels: Mapping[str, str]) -> int | None:
    if names.LABEL_CARD_COUNT not in labels:
        return 1
    return parse_count(labels[names.LABEL_CARD_COUNT]) or None


def _find_placer(metadata: Metadata, spec: Spec, selection: NodeSelection) -> Placer | None:
    for owner in metadata.owner_references or ():
        if owner.kind == "DaemonSet" and owner.controller:
            return Placer.DAEMONSET
    if spec.node_name:
        return Placer.NODE_NAME
    if selection is not ANYWHERE and selection.names_node:
        return Placer.NODE_SELECTION
    gates = [gate.name or "" for gate in spec.scheduling_gates or ()]
    labels = metadata.labels or ()
    marks = [key for key in (*labels, *gates) if key.startswith(names.KUEUE_PREFIX)]
    if marks and not _is_admitted_by_kueue(metadata, marks):
        return Placer.KUEUE
    return None


def _is_admitted_by_kueue(metadata: Metadata, marks: Sequence[str]) -> bool:
    """Tell whether Kueue has admitted the pod and set its node selector; for a pod of a Job or of a
    RayCluster, Kueue holds back its owner."""
    labels = metadata.labels or _NO_LABELS
    if _is_held_as_a_whole(metadata):
        return labels.keys() >= set(marks)
    return names.KUEUE_ADMITTED_LABELS.issuperset(marks)


def _is_held_as_a_whole(metadata: Metadata) -> bool:
    return any(
        owner.kind in HELD_BY_KUEUE and owner.controller
        for owner in metadata.owner_references or ()
    )


UNSET = {"cpu": 100, "memory": 200 * 1024**2}
"""What kube-scheduler takes for a container without a request when it scores nodes
(`DefaultMilliCPURequest` and `DefaultMemoryRequest`, pkg/scheduler/util/pod_resources.go)."""


@dataclass(frozen=True, slots=True)
class PodInfo:
    """What the placement of a pod depends on, once admission has decided on it."""

    request: PodRequest
    tolerations: Tolerations = ()
    host: Amounts = field(default_factory=lambda: NO_AMOUNTS)
    """Requested CPU and memory above 0, as `count_host_amounts` counts them."""
    scored: Amounts = field(default_factory=lambda: NO_AMOUNTS)
    """The same with the defaults by which nodes are scored."""


def read_pod_info(pod: PodShape) -> PodInfo:
    """Read a PodInfo from a pod that admission has written to."""
    spec = pod.spec or Spec()
    return PodInfo(
        read_pod_request(pod),
        parse_tolerations(spec.tolerations or ()),
        {resource: amount for resource, amount in count_host_amounts(spec).items() if amount},
        count_host_amounts(spec, UNSET),
    )


def read_waiting_info(pod: PodShape, schedulers: Collection[str]) -> PodInfo | None:
    """Read the PodInfo of a pod without a node that one of `schedulers` is to place; else None."""
    spec = pod.spec or Spec()
    is_theirs = (spec.scheduler_name or names.DEFAULT_SCHEDULER) in schedulers
    return None if spec.node_name or not is_theirs else read_pod_info(pod)


def encode_info(info: PodInfo) -> bytes:
    """Encode all that the schedulers need to know of a pod: equal for pods of one template."""
    return repr(info).encode()
