"""Reads Kueue's flavors, queues and cohorts, as the API server has them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpushare import names
from gpushare.api.k8s.resources.quantity import parse_exactly

Json = Mapping[str, Any]

VERSION = "v1beta2"
"""Version of Kueue's API that is read and written."""


@dataclass(frozen=True, slots=True)
class Flavor:
    """A ResourceFlavor, and the labels of nodes to which its pods go."""

    name: str
    labels: Mapping[str, str]

    @property
    def pool(self) -> str:
        """Name of the pool that it selects; empty where it selects none by name."""
        return self.labels.get(names.LABEL_POOL, "")


@dataclass(frozen=True, slots=True)
class Quota:
    """What a ClusterQueue or Cohort has of a resource in a flavor."""

    holder: str
    """Kind and name of the object."""
    flavor: str
    resource: str
    amount: Decimal
    group: int = 0
    """Index of the resource group: a pod gets one flavor of each."""


@dataclass(frozen=True, slots=True)
class KueueObjects:
    """All that Kueue's admission of pods to pools depends on."""

    flavors: tuple[Flavor, ...]
    quotas: tuple[Quota, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    """Labels of the namespaces with a LocalQueue, by name; without those that can't be read."""

    @property
    def pools_by_flavor(self) -> Mapping[str, str]:
        """The pool that each flavor selects; empty where it selects none by name."""
        return {flavor.name: flavor.pool for flavor in self.flavors}


def parse_kueue(
    flavors: Iterable[Json],
    cluster_queues: Iterable[Json],
    cohorts: Iterable[Json],
    local_queues: Iterable[Json],
    namespaces: Iterable[Json],
) -> KueueObjects:
    """Parse lists of Kueue's objects of version `VERSION`, and the cluster's namespaces."""
    queued = {raw["metadata"]["namespace"] for raw in local_queues}
    labels = {raw["metadata"]["name"]: raw["metadata"].get("labels") or {} for raw in namespaces}
    kinds = (("clusterqueue", cluster_queues), ("cohort", cohorts))
    return KueueObjects(
        tuple(map(_parse_flavor, flavors)),
        tuple(quota for kind, objects in kinds for raw in objects for quota in _read(kind, raw)),
        {name: labels[name] for name in queued & labels.keys()},
    )


def _parse_flavor(raw: Json) -> Flavor:
    return Flavor(raw["metadata"]["name"], (raw.get("spec") or {}).get("nodeLabels") or {})


def _read(kind: str, raw: Json) -> Iterator[Quota]:
    """Read the quotas of an object; one without an amount that can be read is left out."""
    holder = f"{kind} {raw['metadata']['name']}"
    for index, group in enumerate((raw.get("spec") or {}).get("resourceGroups") or ()):
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                amount = parse_exactly(resource.get("nominalQuota"))
                if amount is not None:
                    yield Quota(holder, flavor["name"], resource["name"], amount, index)
