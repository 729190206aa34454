"""Checks Kueue's flavors and queues against the pools."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal

from gpushare import names
from gpushare.analysis.finding import Finding, FindingCode, report
from gpushare.analysis.kueue.manifests import PoolQueue
from gpushare.analysis.kueue.objects import KueueObjects
from gpushare.api.k8s.node_selection import CHOOSING
from gpushare.api.selector import matches_selector
from gpushare.core.deviceplugin.findings import list_few

_RENDER = "kubectl gpushare render kueue prints flavors and queues for the pools as they are"


def judge_kueue(kueue: KueueObjects, queues: Sequence[PoolQueue]) -> Iterator[Finding]:
    """Check all of Kueue's objects; `queues` are the pools and what they offer."""
    found = [
        *_judge_flavors(kueue, queues),
        *_judge_groups(kueue),
        *_judge_quotas(kueue, queues),
        *_judge_pools(kueue, queues),
    ]
    yield from found
    if not found:
        told = f"Flavors of Kueue: {len(kueue.flavors)}, all with their pools and within them"
        yield report(FindingCode.KUEUE_FITS, "kueue", told)


def _judge_flavors(kueue: KueueObjects, queues: Sequence[PoolQueue]) -> Iterator[Finding]:
    """Find flavors that give out shared cards and send pods to no pool."""
    pools = {queue.pool.name for queue in queues}
    giving = {each.flavor for each in kueue.quotas if each.resource in names.SHARED_RESOURCES}
    for flavor in sorted(kueue.flavors, key=lambda flavor: flavor.name):
        about = f"resourceflavor {flavor.name}"
        if flavor.pool and flavor.pool not in pools:
            told = (
                f"It selects {names.LABEL_POOL}={flavor.pool}, and there is no such pool: pods "
                "that Kueue admits by it stay pending"
            )
            remedy = f"Set the name of a pool, or delete the flavor. {_RENDER}"
            yield report(FindingCode.FLAVOR_POOL_MISSING, about, told, remedy)
        elif flavor.name in giving and CHOOSING.isdisjoint(flavor.labels):
            told = (
                "It gives out shared GPUs and selects no pool: pods of a Job get one that fits, "
                "whatever the quota stands for, and pods that Kueue holds back get none"
            )
            remedy = f"Set {names.LABEL_POOL} in its spec.nodeLabels. {_RENDER}"
            yield report(FindingCode.FLAVOR_WITHOUT_POOL, about, told, remedy)


def _judge_groups(kueue: KueueObjects) -> Iterator[Finding]:
    """Find queues that give one pod flavors of two pools, of which Kueue keeps either's label."""
    pool_of = kueue.pools_by_flavor
    pools: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for quota in kueue.quotas:
        if pool := pool_of.get(quota.flavor):
            pools[quota.holder][quota.group].add(pool)
    for holder, groups in sorted(pools.items()):
        selected = sorted(set().union(*groups.values()))
        if len(groups) > 1 and len(selected) > 1:
            told = (
                f"Flavors of {len(groups)} of its resource groups select pools "
                f"({list_few(selected)}): a pod that gets two of them runs in either"
            )
            remedy = f"Put all resources that have a pool's flavor into one group. {_RENDER}"
            yield report(FindingCode.POOLS_IN_TWO_GROUPS, holder, told, remedy)


def _judge_quotas(kueue: KueueObjects, queues: Sequence[PoolQueue]) -> Iterator[Finding]:
    """Find pools of which more is promised than their nodes offer; what is not known is not
    judged, such as while a node changes."""
    pool_of = kueue.pools_by_flavor
    sums: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    holders: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for quota in kueue.quotas:
        if quota.amount and (pool := pool_of.get(quota.flavor)):
            sums[pool, quota.resource] += quota.amount
            holders[pool, quota.resource].append(quota.holder)
    for queue in queues:
        for resource in sorted(names.GPU_RESOURCES & queue.quota.keys()):
            key, offered = (queue.pool.name, resource), queue.quota[resource]
            if queue.silent or sums[key] <= offered:
                continue
            told = (
                f"Quota of {resource} in Kueue is {sums[key]} ({list_few(holders[key])}), and the "
                f"pool has {offered}: Kueue admits pods for which there is no room"
            )
            yield report(
                FindingCode.QUOTA_ABOVE_POOL,
                f"pool {queue.pool.name}",
                told,
                f"Lower the quota, or add nodes. {_RENDER}",
            )


def _judge_pools(kueue: KueueObjects, queues: Sequence[PoolQueue]) -> Iterator[Finding]:
    """Find pools that serve a namespace of Kueue's, and that no queue can send pods to."""
    selected = {flavor.pool for flavor in kueue.flavors}
    for queue in queues:
        name, selector = queue.pool.name, queue.pool.spec.workloads.namespace_selector
        served = [
            each
            for each, labels in sorted(kueue.namespaces.items())
            if matches_selector(selector, labels)
        ]
        if name in selected or not served:
            continue
        told = (
            f"It serves namespaces with queues of Kueue ({list_few(served)}), and no flavor "
            "selects it: pods of these queues do not get there by Kueue"
        )
        remedy = f"Add a ResourceFlavor with {names.LABEL_POOL}={name} to their ClusterQueue. "
        yield report(FindingCode.POOL_WITHOUT_FLAVOR, f"pool {name}", told, remedy + _RENDER)
