"""Builds the pods that an object will create, from where its kind describes them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from gpushare import names
from gpushare.api.k8s.gpu_request import find_invalid_requests
from gpushare.api.k8s.pod_shape import (
    MalformedPodError,
    Metadata,
    Owner,
    PodShape,
    Shape,
    Spec,
    parse_pod_shape,
)
from gpushare.workload_kinds import (
    EACH,
    POD_OWNERS,
    Keys,
    PodsPlace,
    PodsShape,
    WorkloadKind,
    bind,
    find_value,
    find_values,
)

Json = Mapping[str, Any]
MAX_TEMPLATES = 100
"""Limit of the places of an object that are looked at."""
DEFAULTED = ("nodeSelector", "affinity", "tolerations", "schedulerName")
"""Fields of a pod that an object above it may set for pods without."""
_NAMED_BY = ("name", "groupName")
_MAX_NAME = 63


class Resource(Shape, frozen=True):
    """Group, version and plural name of a kind, as in a URL of the API."""

    group: str | None = None
    version: str | None = None
    resource: str | None = None


PODS = Resource("", "v1", "pods")


class PodsFound(NamedTuple):
    """Pods that an object describes in one place, or why they are not known."""

    where: str
    """Short path of the place; empty where the kind has only one."""
    pod: PodShape | None
    problem: str = ""
    replicas: tuple[tuple[str, Any], ...] = ()
    """Where the number of pods is described, and what stands there; the product counts."""


def find_pods(kind: WorkloadKind, raw: Json) -> Iterator[PodsFound]:
    """Find the pods that an object of this kind describes, one place after the other.

    Each is what the webhook will be asked about: with the owner of the pods (a DaemonSet chooses
    their nodes) and the workload's labels of Kueue, which holds the pods or their owner back. What
    is not there is left out, and so is a place without containers; what can't be read has a
    problem.
    """
    is_single = len(kind.templates) == 1 and EACH not in kind.templates[0].path
    for place in kind.templates:
        for keys, value in find_values(raw, place.path):
            where = "" if is_single else _name(raw, place, keys)
            try:
                pod = _build(kind, place, keys, raw)
            except MalformedPodError as error:
                yield PodsFound(where, None, str(error))
                continue
            if place.shape is PodsShape.OPAQUE and value:
                yield PodsFound(where, None, _tell_opaque(value))
            if pod is not None:
                paths = [bind(each, place.path, keys) for each in place.replicas]
                numbers = [(".".join(map(str, path)), find_value(raw, path)) for path in paths]
                yield PodsFound(where, pod, replicas=tuple(numbers))


def _name(raw: Json, place: PodsPlace, keys: Keys) -> str:
    """Name a place by its path, and items by their name."""
    value: Any = raw
    told = ""
    for segment, key in zip(place.path, keys, strict=True):
        value = value[key]
        if segment != EACH:
            told += f".{key}"
            continue
        named = value if isinstance(key, int) and isinstance(value, dict) else {}
        shown = next((named[each] for each in _NAMED_BY if isinstance(named.get(each), str)), key)
        told += f"[{str(shown)[:_MAX_NAME]}]"
    told = told.removeprefix(".spec")
    while (shorter := told.removesuffix(".template").removesuffix(".spec")) != told:
        told = shorter
    return told.removeprefix(".") or "spec"


def _tell_opaque(value: Any) -> str:
    if isinstance(value, dict) and isinstance(name := value.get("name"), str):
        kind = value.get("kind")
        return f"it names {kind if isinstance(kind, str) else 'object'} {name}"
    return "it changes them in ways that are not read"


def _build(kind: WorkloadKind, place: PodsPlace, keys: Keys, raw: Json) -> PodShape | None:
    """Build the pod of a place; None where it has no containers. Raises `MalformedPodError`."""
    if place.shape is PodsShape.OPAQUE:
        return None
    value = find_value(raw, keys)
    template = {"spec": value} if place.shape is PodsShape.POD_SPEC else _read_map(value)
    given = _read_map(template.get("spec"))
    more = [each for path in place.containers for _, each in find_values(given, path)]
    running = given.get("containers") or []
    if not isinstance(running, list):
        raise MalformedPodError("its containers are no list")
    if not (running or more or given.get("initContainers")):
        return None
    defaults = _read_map(find_value(raw, bind(place.defaults or ("",), place.path, keys)))
    spec = given | {"containers": [*running, *more]}
    for field in DEFAULTED:
        spec[field] = given.get(field) or defaults.get(field)
    spec["schedulerName"] = spec["schedulerName"] or kind.scheduler_name or None
    above = [find_value(raw, bind(each, place.path, keys)) for each in place.metadata]
    pod = parse_pod_shape({"metadata": _merge(*above, template.get("metadata")), "spec": spec})
    if not kind.is_built_in and (invalid := list(find_invalid_requests(pod.spec or Spec()))):
        raise MalformedPodError("; ".join(invalid))
    metadata = pod.metadata or Metadata()
    metadata = replace(metadata, labels=_find_queue(raw, keys) | (metadata.labels or {}))
    if (owner := POD_OWNERS.get(kind.key)) is not None:
        metadata = replace(metadata, owner_references=(Owner(owner, True),))
    return replace(pod, metadata=metadata)


def _read_map(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict | None):
        raise MalformedPodError("an object is expected in a pod's description")
    return value or {}


def _merge(*metadata: Any) -> Json:
    """Merge labels and annotations; of two with one key the last counts."""
    found = [_read_map(each) for each in metadata]
    return {
        part: {key: value for each in found for key, value in _read_map(each.get(part)).items()}
        for part in ("labels", "annotations")
    }


def _find_queue(raw: Json, keys: Keys) -> dict[str, str]:
    """Find the labels of Kueue on the object, and on what it creates above the pods."""
    found: dict[str, str] = {}
    value: Any = raw
    for key in keys:
        metadata = value.get("metadata") if isinstance(value, dict) else None
        labels = metadata.get("labels") if isinstance(metadata, dict) else None
        for label, text in labels.items() if isinstance(labels, dict) else ():
            if isinstance(label, str) and label.startswith(names.KUEUE_PREFIX):
                found[label] = str(text)
        value = value[key]
    return found
