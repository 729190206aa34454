"""A Pod that is being created, as far as the choice of its pool needs it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpushare import names

_MORE_THAN_ZERO = re.compile(r"\+?[0.]*[1-9]")
_HOSTNAME = "kubernetes.io/hostname"
_CHOOSING = names.MODE_LABELS | {names.LABEL_POOL}
"""Labels by which a pod chooses its pool; placement is about cards, not about pools."""
_NODE_NAMES = ("metadata.name", _HOSTNAME)


class MalformedPodError(ValueError):
    """Not a Pod: the message says which field is not what the API has there."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What a pod asks for, and what its owner already decided."""

    resources: frozenset[str] = frozenset()
    """Of gpu-mem and gpu-core.percentage, those that some container asks for."""
    disables_isolation: bool = False
    """Every container that asks for them sets CGPU_DISABLE (guide 001)."""
    isolation: str = ""
    """Value of the annotation `gpushare.io/isolation`; empty where there is none."""
    selects: tuple[str, ...] = ()
    """Node labels of ours that its node selector or required node affinity speaks of."""
    placed_by: str = ""
    """What puts it on a certain node, as part of a sentence; empty where the scheduler is free."""


def parse_pod_request(raw: Mapping[str, Any]) -> PodRequest:
    """A PodRequest from the JSON of a Pod under admission.

    At that time the name may be empty (generateName), and null may stand for any list or map.
    Raises `MalformedPodError` where a field has another shape than the API gives it.
    """
    metadata = _mapping(raw.get("metadata"), "metadata")
    spec = _mapping(raw.get("spec"), "spec")
    containers = [
        container
        for kind in ("initContainers", "containers")
        for container in _mappings(spec.get(kind), f"spec.{kind}")
    ]
    sharing = [(c, asked) for c in containers if (asked := frozenset(_asked_resources(c)))]
    isolation = _mapping(metadata.get("annotations"), "metadata.annotations").get(
        names.ANNOTATION_ISOLATION, ""
    )
    return PodRequest(
        resources=frozenset().union(*(asked for _, asked in sharing)),
        disables_isolation=bool(sharing) and all(_disables_isolation(c) for c, _ in sharing),
        isolation=str(isolation),
        selects=tuple(sorted(set(_selected_keys(spec)) & _CHOOSING)),
        placed_by=_placed_by(metadata, spec),
    )


def _asked_resources(container: Mapping[str, Any]) -> Iterator[str]:
    """Of both, limits go before requests; "0" is none, as Kubernetes counts it."""
    resources = _mapping(container.get("resources"), "resources")
    asked = {
        **_mapping(resources.get("requests"), "resources.requests"),
        **_mapping(resources.get("limits"), "resources.limits"),
    }
    for resource in (names.RESOURCE_GPU_MEMORY, names.RESOURCE_GPU_CORE):
        if _MORE_THAN_ZERO.match(str(asked.get(resource, 0))):
            yield resource


def _disables_isolation(container: Mapping[str, Any]) -> bool:
    values = [
        variable.get("value")
        for variable in _mappings(container.get("env"), "env")
        if variable.get("name") == names.ENV_CGPU_DISABLE
    ]
    return bool(values) and values[-1] in ("true", "1")


def _selected_keys(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from _mapping(spec.get("nodeSelector"), "spec.nodeSelector")
    for term in _required_terms(spec):
        for expression in _mappings(term.get("matchExpressions"), "matchExpressions"):
            yield str(expression.get("key"))


def _placed_by(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    for owner in _mappings(metadata.get("ownerReferences"), "metadata.ownerReferences"):
        if owner.get("kind") == "DaemonSet" and owner.get("controller"):
            return "its DaemonSet"
    if spec.get("nodeName"):
        return "its nodeName"
    if _HOSTNAME in _mapping(spec.get("nodeSelector"), "spec.nodeSelector"):
        return "its selection of a hostname"
    for term in _required_terms(spec):
        # To avoid a node is not to choose one: NotIn leaves the scheduler free.
        for requirement in (
            *_mappings(term.get("matchFields"), "matchFields"),
            *_mappings(term.get("matchExpressions"), "matchExpressions"),
        ):
            if requirement.get("operator") == "In" and requirement.get("key") in _NODE_NAMES:
                return "its affinity to a node's name"
    return ""


def _required_terms(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    affinity = _mapping(spec.get("affinity"), "spec.affinity")
    node_affinity = _mapping(affinity.get("nodeAffinity"), "nodeAffinity")
    required = _mapping(
        node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution"), "nodeAffinity"
    )
    return _mappings(required.get("nodeSelectorTerms"), "nodeSelectorTerms")


def _mapping(value: object, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedPodError(f"{path} must be an object, not {type(value).__name__}")
    return value


def _mappings(value: object, path: str) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedPodError(f"{path} must be a list, not {type(value).__name__}")
    return [_mapping(item, path) for item in value]
