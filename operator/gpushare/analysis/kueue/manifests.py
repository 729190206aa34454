"""Builds Kueue's ResourceFlavors and ClusterQueues for pools, as manifests to keep in git."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from gpushare import names
from gpushare.analysis.kueue.objects import VERSION
from gpushare.api.pool import Pool
from gpushare.api.selector import matches_selector
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.registry import find_mode

Json = dict[str, Any]
Quota = Mapping[str, int]
"""Amounts by resource: CPU in thousandths, memory in GiB."""

MOST_TOLERATIONS = 8
"""Limit of Kueue's ResourceFlavor."""
MOST_FLAVORS = 64
"""Limit of a resource group of Kueue's ClusterQueue."""
_CPU, _MEMORY = "cpu", "memory"
_DECIMAL: tuple[str, ...] = ("m", "", "k", "M", "G")
_BINARY: tuple[str, ...] = ("Gi", "Ti", "Pi")


@dataclass(frozen=True, slots=True)
class PoolQueue:
    """A pool, and what its members offer."""

    pool: Pool
    quota: Quota
    """Empty where no member offers what pods of the mode request."""
    silent: tuple[str, ...] = ()
    """Members that do not offer it, by name."""

    @property
    def cohort(self) -> str:
        """The name for pools with the same edition and mode, between which quota may be lent."""
        mode = f"gpushare-{self.pool.spec.edition}-{self.pool.spec.schedule}"
        return re.sub("[^a-z0-9]+", "-", mode.lower()).strip("-")

    def lends_to(self, other: "PoolQueue") -> bool:
        """Tell whether pods of the other pool may run here: in the same mode, and both pools are
        for the same pods."""
        alike = self.cohort == other.cohort and self.quota.keys() == other.quota.keys()
        return alike and self.pool.spec.workloads == other.pool.spec.workloads


def measure_pool(pool: Pool, members: Iterable[str], snapshot: ClusterSnapshot) -> PoolQueue:
    """Add up what the nodes `members` of `pool` offer: the mode's resources, CPU and memory."""
    mode = find_mode(pool.spec.edition, pool.spec.schedule)
    resources = mode.resources if mode is not None else ()
    sums: Counter[str] = Counter()
    silent = []
    for name in sorted(members):
        node = snapshot.nodes[name]
        offered = {each: node.allocatable.get(each, 0) for each in resources}
        if not any(offered.values()):
            silent.append(name)
            continue
        sums.update(offered)
        for resource, amount in ((_CPU, node.host.cpu_millis), (_MEMORY, node.host.memory_gib)):
            if amount < inf:
                # What is known of a node's memory is rounded up.
                sums[resource] += int(amount) - (resource == _MEMORY)
    return PoolQueue(pool, {each: n for each, n in sums.items() if n > 0}, tuple(silent))


def build_manifests(queues: Sequence[PoolQueue]) -> Iterator[Json]:
    """Build a flavor of each pool, then a queue of each whose quota is known.

    A queue may borrow what those of its cohort leave unused, and gets its own back by preemption.
    """
    for queue in queues:
        yield build_flavor(queue.pool)
    known = [queue for queue in queues if queue.quota]
    for queue in known:
        others = [each for each in known if each is not queue and each.lends_to(queue)]
        yield _build_queue(queue, others[: MOST_FLAVORS - 1])


def build_local_queues(
    queues: Sequence[PoolQueue], namespaces: Mapping[str, Mapping[str, str]]
) -> Iterator[Json]:
    """Build a LocalQueue of each pool that serves one of the `namespaces`, which have these labels,
    and whose quota is known: it has the pool's name."""
    for namespace, labels in namespaces.items():
        for queue in queues:
            name, selector = queue.pool.name, queue.pool.spec.workloads.namespace_selector
            if queue.quota and matches_selector(selector, labels):
                built = _build("LocalQueue", name, {"clusterQueue": name})
                yield {**built, "metadata": {"name": name, "namespace": namespace}}


def build_flavor(pool: Pool) -> Json:
    """Build the ResourceFlavor whose pods go to `pool`, with the tolerations that it gives them."""
    tolerations = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True)
        for each in pool.spec.workloads.tolerations[:MOST_TOLERATIONS]
    ]
    spec = {"nodeLabels": {names.LABEL_POOL: pool.name}}
    added = {"tolerations": tolerations} if tolerations else {}
    return _build("ResourceFlavor", pool.name, {**spec, **added})


def _build_queue(queue: PoolQueue, others: Sequence[PoolQueue]) -> Json:
    covered = list(queue.quota)
    flavors = [_build_quota(queue.pool.name, queue.quota)]
    flavors += [_build_quota(each.pool.name, dict.fromkeys(covered, 0)) for each in others]
    selector = queue.pool.spec.workloads.namespace_selector
    spec = {
        "cohortName": queue.cohort,
        "namespaceSelector": selector.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": covered, "flavors": flavors}],
    }
    return _build("ClusterQueue", queue.pool.name, spec)


def _build_quota(flavor: str, quota: Quota) -> Json:
    resources = [
        {"name": each, "nominalQuota": format_amount(each, amount)}
        for each, amount in quota.items()
    ]
    return {"name": flavor, "resources": resources}


def format_amount(resource: str, amount: int) -> str:
    """Format an amount of a `Quota` as the API server does, so that tools see no difference."""
    if not amount:
        return "0"
    base, units = (1024, _BINARY) if resource == _MEMORY else (1000, _DECIMAL)
    index = len(units) - 1
    scaled = amount if resource in (_CPU, _MEMORY) else amount * base
    while index and scaled % base**index:
        index -= 1
    return f"{scaled // base**index}{units[index]}"


def _build(kind: str, name: str, spec: Json) -> Json:
    version = f"{names.KUEUE_GROUP}/{VERSION}"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
