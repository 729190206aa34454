"""Plans the upgrade from the Basic and OpenSource editions to Professional, node by node.

The mapping is the vendor's (page on upgrading cGPU Basic Edition in a professional cluster, Job
gpushare-migration): `cgpu=true` becomes `ack.node.gpu.schedule=cgpu`, `gpushare=true` becomes
`share`. Whole cards, of which that page says nothing, become `default`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpushare import names
from gpushare.analysis.adoption.adopt import find_claimant, sort_nodes
from gpushare.analysis.adoption.existing_labels import Carried, read_carried
from gpushare.analysis.adoption.grouping import AdoptedPool, group_nodes
from gpushare.analysis.adoption.notes import AdoptionCode, Note, gather, note
from gpushare.analysis.adoption.simulation import simulate
from gpushare.analysis.program_name import name_command
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.sizing.sized_pools import assign
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.registry import EDITIONS, INSTALLERS, OLD_MODE_LABELS, get_mode


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The upgrade of one node."""

    node: str
    pool: str
    """The pool of the Professional edition that gets the node."""
    from_mode: Carried
    to: Carried
    pods: tuple[Pod, ...]
    """Pods that hold GPUs of the old edition's plugin, and must finish or be moved first."""
    selecting: tuple[Pod, ...]
    """Pods that select removed labels."""
    remove: tuple[str, ...]
    """Keys of labels that are removed."""
    reboots: bool
    """Whether a kernel module must be removed, which ends with a reboot."""

    @property
    def restarts(self) -> bool:
        """Whether another DaemonSet serves the node then: the plugin's pod is replaced once."""
        return Schedule.DEFAULT not in (self.from_mode.schedule, self.to.schedule)

    @property
    def begins_to_isolate(self) -> bool:
        """Whether later pods are isolated, which earlier ones were not."""
        from_mode = get_mode(self.from_mode.edition, self.from_mode.schedule)
        return get_mode(self.to.edition, self.to.schedule).isolated and not from_mode.isolated


@dataclass(frozen=True, slots=True)
class UpgradedPools:
    """The pools of the Professional edition, and their nodes."""

    adopted: tuple[AdoptedPool, ...]
    """New pools for nodes that are in no pool."""
    followed: Mapping[str, Carried]
    """Configuration of the pool that replaces a pool of another edition, by the old pool's name."""
    members: Mapping[str, tuple[str, Carried]]
    """The future pool of each node, by the node's name, and its present edition and mode."""
    notes: tuple[Note, ...]


def map_carried(carried: Carried, unisolated: Schedule) -> Carried:
    """Map a mode to the edition's successor; `unisolated` is what Basic's share becomes."""
    left = EDITIONS[carried.edition]
    schedule = unisolated if carried.schedule is left.unisolated else carried.schedule
    return Carried(left.successor or left.edition, schedule, carried.placement)


def plan_upgrade(
    snapshot: ClusterSnapshot, node_pool_label: str, unisolated: Schedule
) -> UpgradedPools:
    """Plan the pools of all nodes of `snapshot` that carry another edition's labels."""
    labelled, left_out = sort_nodes(snapshot, node_pool_label)
    followed = {
        pool.name: map_carried(Carried(pool.spec.edition, pool.spec.schedule), unisolated)
        for pool in snapshot.pools
        if EDITIONS[pool.spec.edition].successor and not pool.deleting
    }
    in_pool = _find_members(snapshot, followed)
    to = {node: map_carried(each, unisolated) for node, each in labelled.carried.items()}
    carried = {n: c for n, c in labelled.carried.items() if EDITIONS[c.edition].successor}
    # What is relabelled already belongs to what is on its way to the same.
    grouped, said = group_nodes(replace(labelled, carried=to))
    adopted = tuple(pool for pool in grouped if not carried.keys().isdisjoint(pool.nodes))
    in_adopted = {node: pool.name for pool in adopted for node in pool.nodes}
    done = [
        note(
            AdoptionCode.ALREADY_PROFESSIONAL,
            node,
            f"already has labels of the Professional edition: use `{name_command('adopt')}`",
        )
        for node in sorted(to.keys() - in_adopted.keys())
    ]
    notes = [
        *(each for each in said if each.names[0] in in_adopted.values()),
        *(each for each in left_out if each.names[0] not in in_pool),
        *done,
    ]
    members = {node: (in_adopted[node], each) for node, each in carried.items()}
    return UpgradedPools(adopted, followed, {**members, **in_pool}, gather(notes))


def plan_nodes(
    snapshot: ClusterSnapshot, upgraded: UpgradedPools, pools: Sequence[Pool], now: datetime
) -> tuple[Upgrade, ...]:
    """Plan the upgrade of each node; `pools` are those of the Professional edition."""
    to = {pool.name: Carried(pool.spec.edition, pool.spec.schedule) for pool in pools}
    reboots = _find_reboots(snapshot, upgraded, pools, now)
    upgrades = []
    for node, (pool, from_mode) in sorted(upgraded.members.items()):
        resources = get_mode(from_mode.edition, from_mode.schedule).resources
        shares = from_mode.schedule is not Schedule.DEFAULT
        live = [pod for pod in snapshot.pods.get(node, ()) if pod.is_live]
        upgrades.append(
            Upgrade(
                node=node,
                pool=pool,
                from_mode=from_mode,
                to=to[pool],
                pods=tuple(pod for pod in live if shares and pod.requests.keys() & set(resources)),
                selecting=tuple(pod for pod in live if selects_old_labels(pod)),
                remove=tuple(sorted(OLD_MODE_LABELS & snapshot.nodes[node].labels.keys())),
                reboots=node in reboots,
            )
        )
    return tuple(upgrades)


def _find_members(
    snapshot: ClusterSnapshot, pools: Collection[str]
) -> dict[str, tuple[str, Carried]]:
    """Find the nodes of these pools that carry a mode of their edition, each with its pool."""
    members = {}
    snapshot = assign(snapshot)
    for name, node in snapshot.nodes.items():
        pool, carried = find_claimant(snapshot, name), read_carried(node)
        if pool in pools and isinstance(carried, Carried):
            members[name] = (pool, carried)
    return members


def selects_old_labels(pod: Pod) -> bool:
    """Tell whether a pod selects labels that no node will have."""
    return any(key in OLD_MODE_LABELS for key, _ in pod.selects)


def _find_reboots(
    snapshot: ClusterSnapshot, upgraded: UpgradedPools, pools: Sequence[Pool], now: datetime
) -> frozenset[str]:
    """Find the nodes that need a reboot once they are relabelled and their pods are gone.

    Basic loads the kernel module wherever `cgpu=true` (its installer selects that label), also
    where isolation is off; that it may be loaded stands on the node then.
    """
    targets = {pool.name: get_mode(pool.spec.edition, pool.spec.schedule) for pool in pools}
    nodes = {}
    for name, (pool, from_mode) in upgraded.members.items():
        node = snapshot.nodes[name]
        kept = {key: value for key, value in node.labels.items() if key not in OLD_MODE_LABELS}
        components = get_mode(from_mode.edition, from_mode.schedule).components
        loaded = EDITIONS[from_mode.edition].successor and not INSTALLERS.isdisjoint(components)
        nodes[name] = replace(
            node,
            labels={**kept, **targets[pool].labels},
            annotations={names.ANNOTATION_MODULE: names.MODULE_LOADED} if loaded else {},
            owned=frozenset(),
        )
    pods = {name: [p for p in snapshot.pods.get(name, ()) if not p.requests] for name in nodes}
    then = ClusterSnapshot(
        pools=tuple(pools), nodes=nodes, pods=pods, plugin_daemonsets=snapshot.plugin_daemonsets
    )
    return frozenset(each.node for each in simulate(then, targets.keys(), now) if each.reboots)
