"""Migrates the pods in a manifest of any kind."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from gpushare import names
from gpushare.analysis.migration.finding import Migrated, MigrationCode, MigrationFinding
from gpushare.analysis.migration.pods import Target, migrate_pod
from gpushare.api.k8s.node_selection import ANYWHERE
from gpushare.api.k8s.resources.quantity import parse_quantity
from gpushare.editions.registry import MODES
from gpushare.workload_kinds import (
    PodsPlace,
    PodsShape,
    find_kind,
    find_value,
    find_values,
    merge_kinds,
)

Json = dict[str, Any]
_COMPONENTS = frozenset({name for mode in MODES.values() for name in mode.daemonsets}) | {
    "device-plugin-evict-ds"
}
"""DaemonSets that come with an edition, and go with it."""
_IMMUTABLE = frozenset({"Pod", "Job"})
_REQUESTS = "requests."
_WHOLE, _MEMORY = names.RESOURCE_WHOLE_GPU, names.RESOURCE_GPU_MEMORY


def migrate_manifest(raw: Any, target: Target) -> Migrated:
    """Migrate an object, or a List of them; anything else is not changed."""
    if not isinstance(raw, dict):
        return Migrated(raw)
    items = raw.get("items")
    if str(raw.get("kind")).endswith("List") and isinstance(items, list):
        migrated = [migrate_manifest(item, target) for item in items]
        findings = tuple(finding for item in migrated for finding in item.findings)
        return Migrated(raw | {"items": [item.raw for item in migrated]}, findings)
    found = _migrate_object(raw, target)
    about = _describe(raw)
    return Migrated(found.raw, tuple(replace(each, about=about) for each in found.findings))


def _describe(raw: Json) -> str:
    metadata = _read_mapping(raw, "metadata")
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    namespace = metadata.get("namespace")
    return f"{raw.get('kind')} {f'{namespace}/' if namespace else ''}{name}"


def _read_mapping(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = raw.get(key)
    return found if isinstance(found, dict) else {}


def _migrate_object(raw: Json, target: Target) -> Migrated:
    kind, name = str(raw.get("kind")), str(_read_mapping(raw, "metadata").get("name"))
    if kind == "DaemonSet" and name in _COMPONENTS:
        message = "The DaemonSet belongs to an edition of GPU sharing, and is not changed"
        return Migrated(raw, (MigrationFinding(MigrationCode.OLD_COMPONENT, message),))
    if kind == "ResourceQuota":
        return Migrated(raw, tuple(_read_quota(raw, target)))
    if kind == "LimitRange":
        return Migrated(raw, tuple(_read_limit_range(raw)))
    walk = _Walk(target, _find_pod_specs(raw))
    changed = walk.migrate(raw)
    if changed != raw and kind in _IMMUTABLE:
        message = f"The resources of a {kind} are immutable. Delete and recreate it"
        walk.findings.append(MigrationFinding(MigrationCode.RECREATE, message))
    return Migrated(changed, tuple(dict.fromkeys(walk.findings)))


@dataclass(slots=True)
class _Walk:
    """Walks through an object of any kind: a template of pods is known by its shape, so that those
    of custom resources are found too."""

    target: Target
    specs: Mapping[int, PodsPlace]
    """Places of specs of pods that have further containers, by the identity of the spec."""
    findings: list[MigrationFinding] = field(default_factory=list)

    def migrate(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.migrate(item) for item in value]
        if not isinstance(value, dict):
            return value
        if _is_pod(value):
            migrated = migrate_pod(value, self.target)
            self.findings += migrated.findings
            return migrated.raw
        if (place := self.specs.get(id(value))) is not None:
            value = self._migrate_spec(value, place)
        elif _WHOLE in value:
            message = f"{_WHOLE} is set outside of a pod's containers. Check it yourself"
            self.findings.append(MigrationFinding(MigrationCode.UNKNOWN_SHAPE, message))
        return {key: self.migrate(item) for key, item in value.items()}

    def _migrate_spec(self, spec: Json, place: PodsPlace) -> Json:
        """Migrate the spec of a pod together with its further containers."""
        found = [each for path in place.containers for each in find_values(spec, path)]
        own = spec.get("containers") or []
        if not isinstance(own, list):
            return spec
        containers = [*own, *(container for _, container in found)]
        pod = {"spec": spec | {"containers": containers}}
        if not _is_pod(pod):
            return spec
        migrated = migrate_pod(pod, self.target)
        # A label is needed, for which each kind has another place: found as outside of a pod.
        if "metadata" in migrated.raw:
            return spec
        self.findings += migrated.findings
        changed = deepcopy(migrated.raw["spec"])
        own, more = changed["containers"][: len(own)], changed["containers"][len(own) :]
        changed = {key: value for key, value in changed.items() if key != "containers"}
        for (keys, _), container in zip(found, more, strict=True):
            *above, last = keys
            find_value(changed, tuple(above))[last] = container
        return changed | ({"containers": own} if "containers" in spec else {})


def _find_pod_specs(raw: Json) -> Mapping[int, PodsPlace]:
    kind = find_kind(merge_kinds(), raw)
    return {
        id(value): place
        for place in (kind.templates if kind is not None else ())
        if place.shape is PodsShape.POD_SPEC
        for _, value in find_values(raw, place.path)
        if isinstance(value, dict)
    }


def _is_pod(value: Json) -> bool:
    containers = _read_mapping(value, "spec").get("containers")
    return isinstance(containers, list) and all(isinstance(each, dict) for each in containers)


def _read_quota(raw: Json, target: Target) -> Iterator[MigrationFinding]:
    hard = _read_mapping(_read_mapping(raw, "spec"), "hard")
    limits = {str(key).removeprefix(_REQUESTS): value for key, value in hard.items()}
    whole, memory = limits.get(_WHOLE), limits.get(_MEMORY)
    if whole is not None:
        message = (
            f"{_REQUESTS}{_WHOLE} ({whole}) does not count pods that share. "
            f"Add {_REQUESTS}{_MEMORY}"
        )
        count, per_card = parse_quantity(whole), target.cards.find_memory(ANYWHERE)
        if count is not None and isinstance(per_card, int):
            message += f', "{count * per_card}" for as many whole cards'
        yield MigrationFinding(MigrationCode.QUOTA, message)
    if memory is not None:
        message = f"{_REQUESTS}{_MEMORY} ({memory}) will also count the migrated pods"
        yield MigrationFinding(MigrationCode.QUOTA, message)


def _read_limit_range(raw: Json) -> Iterator[MigrationFinding]:
    limits = _read_mapping(raw, "spec").get("limits")
    named: set[str] = set()
    for limit in limits if isinstance(limits, list) else ():
        if isinstance(limit, dict):
            named.update(*(part for part in limit.values() if isinstance(part, dict)))
    if _WHOLE in named:
        message = (
            f"The LimitRange limits {_WHOLE}: pods that share get its default or max, or are "
            f"refused. Limit {_MEMORY} instead, before pods share"
        )
        yield MigrationFinding(MigrationCode.LIMIT_RANGE, message)
    if _MEMORY in named:
        message = f"The LimitRange limits {_MEMORY}, which the migrated pods will also ask for"
        yield MigrationFinding(MigrationCode.LIMIT_RANGE, message)
