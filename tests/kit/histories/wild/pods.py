"""Generates random pods of tenants: with suffixes, gates, sidecars, selectors of any label."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.kit.histories.gpu_cluster import Requirement
from tests.kit.histories.wild.machines import ARCH, CARD_MODEL, MODELS, PRODUCT, ZONE, ZONES
from tests.kit.values.manifests import build_container, build_pod

Json = dict[str, Any]
_QUANTITIES: Mapping[str, int] = {
    **{str(units): units for units in (1, 2, 3, 4, 8, 15)},
    "1e1": 10,
    "16": 16,
    "40": 40,
    "10G": 10 * 1000**3,
    "3Gi": 3 * 1024**3,
    "5k": 5000,
}
_SMALL = ("1", "2", "3", "4", "8", "15", "1e1")
"""Quantities that a card of any machine has."""
_SELECTED: Mapping[str, tuple[str, ...]] = {
    CARD_MODEL: (*MODELS, "A100"),
    PRODUCT: MODELS,
    ZONE: (*ZONES, "cn-hangzhou-k"),
    ARCH: ("amd64", "arm64"),
}
_OWNERS = ("", "ReplicaSet", "Job", "RayCluster", "Workflow")
_TOLERATIONS: tuple[tuple[Mapping[str, str], ...], ...] = (
    (),
    (),
    ({"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"},),
    ({"operator": "Exists"},),
)


@dataclass(frozen=True)
class WildPod:
    """A pod's manifest as values."""

    name: str
    quantities: tuple[str, ...]
    """GPU memory of each container."""
    sidecar: str = ""
    """GPU memory of a sidecar; empty: the pod has none."""
    selects: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Mapping[str, str], ...] = ()
    is_gated: bool = False
    owner: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """Units that the pod requests of a card."""
        asked = (*self.quantities, *([self.sidecar] if self.sidecar else []))
        return sum(_QUANTITIES[quantity] for quantity in asked)

    @property
    def disables_isolation(self) -> bool:
        """Whether all containers with GPU memory, none a sidecar, set CGPU_DISABLE."""
        return self.environment.get("CGPU_DISABLE") == "true" and not self.sidecar

    def build(self, **spec: Any) -> Json:
        """Build the API server's pod, with additional fields of `spec`."""
        raw = build_pod(self.name, selects=self.selects, owner=self.owner, **spec)
        raw["metadata"] |= {"namespace": "default", "uid": f"uid-of-{self.name}"}
        raw["spec"]["containers"] = [*_build_containers(self)]
        if self.sidecar:
            sidecar = build_container("proxy", memory=self.sidecar) | {"restartPolicy": "Always"}
            raw["spec"]["initContainers"] = [sidecar]
        if self.terms:
            terms = [{"matchExpressions": [_build(each) for each in term]} for term in self.terms]
            required = {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
            raw["spec"]["affinity"] = {"nodeAffinity": required}
        if self.tolerations:
            raw["spec"]["tolerations"] = [dict(each) for each in self.tolerations]
        if self.is_gated:
            raw["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
        return raw


def _build_containers(pod: WildPod) -> Iterator[Json]:
    """Build the containers, with the quantities of their owner or of a LimitRange."""
    for index, quantity in enumerate(pod.quantities):
        yield build_container(f"main-{index}", env=pod.environment or None, memory=quantity)
    if not pod.quantities:
        yield build_container("main", env=pod.environment or None)


def _build(requirement: Requirement) -> Json:
    key, operator, values = requirement
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


class WildPodGenerator:
    """Generates pods from one random generator."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._count = 0

    def generate(self) -> WildPod:
        """Generate a pod of any kind."""
        chance = self._chance
        quantity = chance.choice(_SMALL) if chance.random() < 0.8 else chance.choice([*_QUANTITIES])
        more = (chance.choice(_SMALL[:3]),) if chance.random() < 0.1 else ()
        return WildPod(
            self._name(),
            (quantity, *more),
            sidecar="1" if chance.random() < 0.1 else "",
            selects=self._draw_selector(),
            terms=self._draw_terms(),
            tolerations=chance.choice(_TOLERATIONS),
            is_gated=chance.random() < 0.1,
            owner=chance.choice(_OWNERS),
            environment={"CGPU_DISABLE": "true"} if chance.random() < 0.3 else {},
        )

    def generate_small(self) -> WildPod:
        """Generate a pod that a card of any machine could take."""
        return WildPod(self._name(), (self._chance.choice(_SMALL),))

    def _draw_selector(self) -> dict[str, str]:
        chance = self._chance
        if chance.random() < 0.5:
            return {}
        keys = chance.sample([*_SELECTED], chance.choice((1, 1, 2)))
        return {key: chance.choice(_SELECTED[key]) for key in keys}

    def _draw_terms(self) -> tuple[tuple[Requirement, ...], ...]:
        chance = self._chance
        if chance.random() < 0.8:
            return ()
        return tuple((self._draw_requirement(),) for _ in range(chance.choice((1, 1, 2))))

    def _draw_requirement(self) -> Requirement:
        chance = self._chance
        key = chance.choice([*_SELECTED])
        operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = tuple(chance.sample(_SELECTED[key], 1)) if operator in ("In", "NotIn") else ()
        return key, operator, values

    def _name(self) -> str:
        self._count += 1
        return f"pod-{self._count}"
