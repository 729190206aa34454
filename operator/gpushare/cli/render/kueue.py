"""Renders Kueue's objects for the pools of a cluster."""

from collections.abc import Iterator, Sequence

from gpushare.analysis.inspect.pools import plan_snapshot
from gpushare.analysis.kueue.manifests import (
    MOST_TOLERATIONS,
    PoolQueue,
    build_local_queues,
    build_manifests,
    measure_pool,
)
from gpushare.api.pruned.cluster import Kind
from gpushare.api.selector import LabelSelector, Scaling
from gpushare.cli.cluster.access import Access, check_namespace
from gpushare.cli.cluster.snapshot import PLANNED, observe_pools
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.output.data import render_manifests
from gpushare.core.deviceplugin.findings import list_few

_HEAD = (
    "Flavors and queues of Kueue for pools, with what their nodes offer now. Render them again "
    "when nodes come or go",
    "Quota of CPU and memory is all that the nodes have: subtract what pods outside of Kueue use",
)
_LOCAL = "Jobs need a LocalQueue in their namespace: render kueue -n NAMESPACE prints those, too"


def render_queues(access: Access, namespaces: Sequence[str] = ()) -> str:
    """Render flavors and queues of all pools, and their LocalQueues in these namespaces.

    Raises `CommandError` where there is no pool, or not such a namespace.
    """
    cluster = access.read(*PLANNED, *([Kind.NAMESPACES] if namespaces else []))
    for namespace in namespaces:
        check_namespace(cluster, namespace)
    labels = {
        raw["metadata"]["name"]: raw["metadata"].get("labels") or {} for raw in cluster.namespaces
    }
    seen = observe_pools(cluster)
    snapshot = seen.snapshot
    plans = plan_snapshot(snapshot, seen.known.setup, cluster.taken_at).plans_by_pool
    queues = [
        measure_pool(pool, plans[pool.name].capacities, snapshot)
        for pool in sorted(snapshot.pools, key=lambda pool: pool.name)
    ]
    if not queues:
        raise CommandError(Exit.NOT_FOUND, "there is no pool to render flavors and queues for")
    told = [f"Pool {each.pool.name}: {line}" for each in queues for line in list_notes(each)]
    told += [f"Pool {each.name} can't be read: {each.error}" for each in seen.unreadable]
    local = build_local_queues(queues, {name: labels[name] for name in namespaces})
    head = [*_HEAD, *(() if namespaces else (_LOCAL,)), *told]
    return render_manifests(head, [*build_manifests(queues), *local], {})


def list_notes(queue: PoolQueue) -> Iterator[str]:
    """List what the manifests of a pool do not have."""
    spec, silent = queue.pool.spec, queue.silent
    if not queue.quota:
        yield (
            "no node offers what its pods request now, so its quota is not known. It has a flavor "
            "and no queue"
        )
    elif silent:
        yield f"without the quota of {len(silent)} nodes that offer nothing now: {list_few(silent)}"
    if queue.quota and not {"cpu", "memory"} <= queue.quota.keys():
        yield (
            "CPU or memory of its nodes is not known. Kueue admits nothing that requests cpu or "
            "memory while the queue has no quota of it"
        )
    if spec.nodes.scaling is Scaling.AUTOSCALED:
        yield "its nodes scale, and the quota is that of the present ones"
    if spec.workloads.pod_selector != LabelSelector():
        yield "Kueue does not check workloads.podSelector"
    if (more := len(spec.workloads.tolerations) - MOST_TOLERATIONS) > 0:
        yield f"Kueue's limit is {MOST_TOLERATIONS} tolerations; the last {more} are left out"
