"""A Pod that is being created: what it asks for, and what its owner already decided."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import orjson

from gpushare import names
from gpushare.api.gpurequest import (
    NO_AMOUNTS,
    Amounts,
    add_amounts,
    count_container,
    is_sidecar,
    raise_to_start,
)
from gpushare.api.ledger import parse_count
from gpushare.api.nodeselection import ANYWHERE, Demand, NodeSelection, Term, demand, join_term

MAX_DECISION = 1024
"""Bytes of our annotation; what is longer is not ours."""
_ON = ("true", "1")
_NO_DEVICES = ("none", "void", "")
"""Values of NVIDIA_VISIBLE_DEVICES that give no card (NVIDIA Container Toolkit)."""
_GPU_PREFIXES = ("nvidia.com/", "aliyun.com/gpu")
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class MalformedPodError(ValueError):
    """Not a Pod: the message says which field is not what the API has there."""


class Placer(StrEnum):
    """What decides on which node a pod runs, as part of a sentence."""

    DAEMONSET = "its DaemonSet"
    NODE_NAME = "its nodeName"
    NODE_SELECTION = "its selection of a node's name"
    KUEUE = "its Kueue queue"


@dataclass(frozen=True, slots=True)
class PodRequest:
    """All of a pod that the choice of its pool depends on."""

    requests: Amounts = field(default_factory=lambda: NO_AMOUNTS, hash=False)
    """GPU resources, as kube-scheduler counts them."""
    shares: tuple[int, ...] = ()
    """Units of gpu-mem of each container that asks for it."""
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS, hash=False)
    opts_out: bool = False
    pool: str = ""
    """Name of the pool that it asks for; empty where it asks for none."""
    isolation: str = ""
    """Value of the annotation `gpushare.io/isolation`; empty where there is none."""
    decided_pool: str = ""
    """Where our annotation says that it was sent, if anybody wrote one."""
    placer: Placer | None = None
    """What puts it on a certain node; None where the scheduler is free."""
    scheduler: str = names.DEFAULT_SCHEDULER
    selection: NodeSelection = ANYWHERE
    disables_isolation: bool = False
    """Every container that asks for shared GPU sets CGPU_DISABLE (vendor's guide on cGPU)."""
    disables_isolation_anywhere: bool = False
    """One of them does."""
    uses_gpu_unasked: bool = False
    """A container means to use a GPU, by its environment, and the pod asks for none at all."""
    sees_other_cards: bool = False
    """A container picks its cards itself, by NVIDIA_VISIBLE_DEVICES, in a pod with gpu-mem."""
    limits_card_count: bool = False
    """It asks for the resource `aliyun.com/gpu-count`, which gives no card."""

    @property
    def asks_for_share(self) -> bool:
        """Whether it asks for a part of a card."""
        return not names.SHARED_RESOURCES.isdisjoint(self.requests)

    @property
    def requires_isolation(self) -> bool:
        return self.isolation == names.ISOLATION_REQUIRED

    @property
    def memory(self) -> int:
        """Units of gpu-mem in all."""
        return self.requests.get(names.RESOURCE_GPU_MEMORY, 0)

    @property
    def card_count(self) -> int | None:
        """Cards over which its label spreads the memory (Professional); None where that is none."""
        if names.LABEL_CARD_COUNT not in self.labels:
            return 1
        return parse_count(self.labels[names.LABEL_CARD_COUNT]) or None

    @property
    def wants_whole_card(self) -> bool:
        """Whether it wants a card that nobody shares (Professional)."""
        return self.labels.get(names.LABEL_CARD_PLACEMENT) == names.REQUIRE_WHOLE_DEVICE

    @property
    def is_left_to_admission(self) -> bool:
        """Whether it asks for shared GPU, and neither its owner nor anybody else says where."""
        return (
            self.asks_for_share
            and self.placer is None
            and not self.opts_out
            and self.scheduler == names.DEFAULT_SCHEDULER
            and not self.selection.chosen_keys
        )


def parse_pod_request(raw: Mapping[str, Any]) -> PodRequest:
    """A PodRequest from the JSON of a Pod under admission.

    At that time the name may be empty (generateName), and null may stand for any list or map.
    Raises `MalformedPodError` where a field has another shape than the API gives it.
    """
    metadata = _mapping(raw.get("metadata"), "metadata")
    spec = _mapping(raw.get("spec"), "spec")
    annotations = _strings(metadata.get("annotations"), "metadata.annotations")
    labels = _strings(metadata.get("labels"), "metadata.labels")
    running = _containers(spec, "containers")
    starting = _containers(spec, "initContainers")
    containers = [*starting, *running]

    asked = [count_container(container) for container in containers]
    requests: Amounts = add_amounts(asked[len(starting) :])
    if starting:
        stays = map(is_sidecar, starting)
        requests = raise_to_start(requests, zip(asked, stays, strict=False))
    sharing = [not names.SHARED_RESOURCES.isdisjoint(amounts) for amounts in asked]
    environments = [_gpu_environment(container) for container in containers]
    disabling = [
        environment.get(names.ENV_CGPU_DISABLE) in _ON
        for environment, shares in zip(environments, sharing, strict=True)
        if shares
    ]
    selection = _parse_selection(spec)
    return PodRequest(
        requests=requests,
        shares=tuple(
            amounts[names.RESOURCE_GPU_MEMORY]
            for amounts in asked
            if names.RESOURCE_GPU_MEMORY in amounts
        ),
        labels=labels,
        opts_out=annotations.get(names.ANNOTATION_INJECT) == names.INJECT_DISABLED,
        pool=annotations.get(names.ANNOTATION_POOL, ""),
        isolation=annotations.get(names.ANNOTATION_ISOLATION, ""),
        decided_pool=_parse_decided_pool(annotations.get(names.ANNOTATION_DECISION, "")),
        placer=_find_placer(metadata, labels, spec, selection),
        scheduler=str(spec.get("schedulerName") or names.DEFAULT_SCHEDULER),
        selection=selection,
        disables_isolation=bool(disabling) and all(disabling),
        disables_isolation_anywhere=any(disabling),
        uses_gpu_unasked=(
            not requests
            and any(environments)
            and not spec.get("resourceClaims")
            and not any(map(_asks_for_other_gpu, containers))
        ),
        sees_other_cards=(
            any(sharing)
            and any(names.ENV_VISIBLE_DEVICES in environment for environment in environments)
        ),
        limits_card_count=any(
            names.RESOURCE_GPU_COUNT in _asked_resources(container) for container in containers
        ),
    )


def _containers(spec: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    containers = _mappings(spec.get(kind), f"spec.{kind}")
    for container in containers:
        if resources := _mapping(container.get("resources"), "resources"):
            _mapping(resources.get("requests"), "resources.requests")
            _mapping(resources.get("limits"), "resources.limits")
    return containers


def _gpu_environment(container: Mapping[str, Any]) -> Mapping[str, str]:
    """What its variables about GPUs say, those aside that give none; of two equal ones the last."""
    found = {}
    for variable in _mappings(container.get("env"), "env"):
        name = str(variable.get("name"))
        if name in names.GPU_ENVIRONMENT:
            # What is read from elsewhere may say anything.
            elsewhere = "valueFrom" if variable.get("valueFrom") else ""
            found[name] = str(variable.get("value") or elsewhere)
    return {name: value for name, value in found.items() if value not in _NO_DEVICES}


def _asked_resources(container: Mapping[str, Any]) -> set[str]:
    resources = container.get("resources") or {}
    return {*(resources.get("requests") or {}), *(resources.get("limits") or {})}


def _asks_for_other_gpu(container: Mapping[str, Any]) -> bool:
    """Such as `nvidia.com/mig-1g.5gb`."""
    return any(resource.startswith(_GPU_PREFIXES) for resource in _asked_resources(container))


def _parse_decided_pool(text: str) -> str:
    if not 0 < len(text) <= MAX_DECISION:
        return ""
    try:
        decision = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ""
    pool = decision.get("pool") if isinstance(decision, dict) else None
    return pool if isinstance(pool, str) else ""


def _find_placer(
    metadata: Mapping[str, Any],
    labels: Mapping[str, str],
    spec: Mapping[str, Any],
    selection: NodeSelection,
) -> Placer | None:
    for owner in _mappings(metadata.get("ownerReferences"), "metadata.ownerReferences"):
        if owner.get("kind") == "DaemonSet" and owner.get("controller"):
            return Placer.DAEMONSET
    if spec.get("nodeName"):
        return Placer.NODE_NAME
    if selection is not ANYWHERE and selection.names_node:
        return Placer.NODE_SELECTION
    gates = _mappings(spec.get("schedulingGates"), "spec.schedulingGates")
    if any(key.startswith(names.KUEUE_PREFIX) for key in labels) or any(
        str(gate.get("name")).startswith(names.KUEUE_PREFIX) for gate in gates
    ):
        return Placer.KUEUE
    return None


def _parse_selection(spec: Mapping[str, Any]) -> NodeSelection:
    labels = _strings(spec.get("nodeSelector"), "spec.nodeSelector")
    affinity = _mapping(spec.get("affinity"), "spec.affinity")
    node_affinity = _mapping(affinity.get("nodeAffinity"), "nodeAffinity")
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return NodeSelection(labels) if labels else ANYWHERE
    terms = _mappings(_mapping(required, "nodeAffinity").get("nodeSelectorTerms"), "terms")
    return NodeSelection(labels, tuple(term for term in map(_parse_term, terms) if term))


def _parse_term(raw: Mapping[str, Any]) -> Term:
    return join_term(
        requirement
        for part in ("matchExpressions", "matchFields")
        for requirement in _parse_requirements(raw.get(part), part)
    )


def _parse_requirements(raw: object, path: str) -> Iterator[tuple[str, Demand]]:
    for requirement in _mappings(raw, path):
        values = _list(requirement.get("values"), f"{path}.values")
        key = str(requirement.get("key"))
        yield key, demand(requirement.get("operator"), map(str, values))


_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _mapping(value: object, path: str) -> Mapping[str, Any]:
    if value is None:
        return _NOTHING
    if not isinstance(value, dict):
        raise MalformedPodError(f"{path} must be an object, not {type(value).__name__}")
    return value


def _strings(value: object, path: str) -> Mapping[str, str]:
    strings = _mapping(value, path)
    for key, text in strings.items():
        if not isinstance(text, str):
            raise MalformedPodError(f"{path}: {key[:63]} must be text, not {type(text).__name__}")
    return strings


def _mappings(value: object, path: str) -> list[Mapping[str, Any]]:
    return [_mapping(item, path) for item in value] if (value := _list(value, path)) else []


def _list(value: object, path: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedPodError(f"{path} must be a list, not {type(value).__name__}")
    return value
