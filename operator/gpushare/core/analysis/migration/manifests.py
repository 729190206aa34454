"""A manifest of any kind, with the pods that it makes migrated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpushare import names
from gpushare.api.k8s.node import parse_quantity
from gpushare.core.analysis.migration.finding import Code, Finding
from gpushare.core.analysis.migration.pods import Migrated, Target, migrate_pod
from gpushare.editions.registry import MODES

Json = dict[str, Any]
_COMPONENTS = frozenset({name for mode in MODES.values() for name in mode.daemonsets}) | {
    "device-plugin-evict-ds"
}
"""DaemonSets that come with an edition, and go with it."""
_IMMUTABLE = frozenset({"Pod", "Job"})
_REQUESTS = "requests."
_MEMORY = names.RESOURCE_GPU_MEMORY


@dataclass(frozen=True, slots=True)
class Told:
    """A finding, and the object that it is about."""

    about: str
    """Its kind, namespace and name."""
    finding: Finding


@dataclass(frozen=True, slots=True)
class MigratedManifest:
    """A document as it is to be; the same where nothing is to be changed."""

    raw: Any
    told: tuple[Told, ...] = ()


def migrate_manifest(raw: Any, target: Target) -> MigratedManifest:
    """An object, or a List of them; what is neither is left alone."""
    if not isinstance(raw, dict):
        return MigratedManifest(raw)
    items = raw.get("items")
    if str(raw.get("kind")).endswith("List") and isinstance(items, list):
        found = [migrate_manifest(item, target) for item in items]
        told = tuple(each for item in found for each in item.told)
        return MigratedManifest(raw | {"items": [item.raw for item in found]}, told)
    migrated = _migrate_object(raw, target)
    about = _describe(raw)
    return MigratedManifest(migrated.raw, tuple(Told(about, each) for each in migrated.findings))


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
        message = "comes with an edition of GPU sharing, and is left to it"
        return Migrated(raw, (Finding(Code.OLD_COMPONENT, message),))
    if kind == "ResourceQuota":
        return Migrated(raw, tuple(_read_quota(raw, target)))
    if kind == "LimitRange":
        return Migrated(raw, tuple(_read_limit_range(raw)))
    walk = _Walk(target)
    changed = walk.migrate(raw)
    if changed != raw and kind in _IMMUTABLE:
        message = f"what a {kind} asks for can't be changed: delete it, and create it anew"
        walk.findings.append(Finding(Code.RECREATE, message))
    return Migrated(changed, tuple(dict.fromkeys(walk.findings)))


@dataclass(slots=True)
class _Walk:
    """Through an object of any kind: a template of pods is known by its shape, so that those of
    custom resources are found too."""

    target: Target
    findings: list[Finding] = field(default_factory=list)

    def migrate(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.migrate(item) for item in value]
        if not isinstance(value, dict):
            return value
        if _is_pod(value):
            migrated = migrate_pod(value, self.target)
            self.findings += migrated.findings
            return migrated.raw
        if names.RESOURCE_WHOLE_GPU in value:
            message = (
                f"{names.RESOURCE_WHOLE_GPU} stands where no container of a pod is; look at it "
                "yourself"
            )
            self.findings.append(Finding(Code.UNKNOWN_SHAPE, message))
        return {key: self.migrate(item) for key, item in value.items()}


def _is_pod(value: Json) -> bool:
    spec = value.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return isinstance(containers, list) and all(isinstance(each, dict) for each in containers)


def _read_quota(raw: Json, target: Target) -> Iterator[Finding]:
    hard = _read_mapping(_read_mapping(raw, "spec"), "hard")
    limits = {str(key).removeprefix(_REQUESTS): value for key, value in hard.items()}
    whole, memory = (limits.get(each) for each in (names.RESOURCE_WHOLE_GPU, _MEMORY))
    if whole is not None:
        wanted = f"{_REQUESTS}{_MEMORY}"
        yield Finding(
            Code.QUOTA,
            f"its {_REQUESTS}{names.RESOURCE_WHOLE_GPU} ({whole}) does not count pods that share; "
            f"put {wanted} beside it{_suggest(whole, target)}",
        )
    if memory is not None:
        yield Finding(
            Code.QUOTA,
            f"its {_REQUESTS}{_MEMORY} ({memory}) counts pods that asked for whole cards until "
            "now; make room for them",
        )


def _suggest(whole: Any, target: Target) -> str:
    """How much memory so many cards are, where they are of one kind."""
    count, memory = parse_quantity(whole), target.cards.memory_of_any
    if count is None or memory is None:
        return ""
    return f', for as many whole cards "{count * memory}"'


def _read_limit_range(raw: Json) -> Iterator[Finding]:
    limits = _read_mapping(raw, "spec").get("limits")
    named = {
        key
        for limit in (limits if isinstance(limits, list) else ())
        if isinstance(limit, dict)
        for part in limit.values()
        if isinstance(part, dict)
        for key in part
    }
    if names.RESOURCE_WHOLE_GPU in named:
        yield Finding(
            Code.LIMIT_RANGE,
            f"it limits {names.RESOURCE_WHOLE_GPU}: a pod that asks for none is given its default "
            f"or max, or refused; limit {_MEMORY} in its place, before pods share",
        )
    if _MEMORY in named:
        yield Finding(
            Code.LIMIT_RANGE,
            f"it limits {_MEMORY}, and pods that asked for whole cards will ask for it; see that "
            "their size is within",
        )
