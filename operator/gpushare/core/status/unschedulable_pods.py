"""Finds pods that request GPUs and have no pool or no node, and explains why."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from shlex import join

from gpushare import names
from gpushare.api.k8s.pod import SCHEDULER_ERROR, Pod
from gpushare.api.status import PoolCapacity
from gpushare.core.capacity.demand import NoDemand
from gpushare.core.capacity.node_capacity import NodeCapacity
from gpushare.core.capacity.pool_capacity import close_tainted, sum_capacity
from gpushare.core.deviceplugin.scheduler_errors import (
    RESTART_CHECKED,
    count_refused,
    explain_scheduler_error,
    find_volume_conflict,
)
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.snapshot.actions import NodeState
from gpushare.names import Reason

GRACE = timedelta(seconds=5)
"""A pod this young may still get its node, or be gone again."""
REASONS = (
    *(Reason.UNROUTED, Reason.POOL_NOT_FOUND, Reason.POOL_HAS_NO_NODES),
    *(Reason.LARGER_THAN_ANY_CARD, Reason.VOLUME_CONFLICT),
    *(Reason.POOL_NOT_READY, Reason.NO_FREE_BLOCK),
    *(Reason.UNSCHEDULABLE, Reason.SCHEDULER_UNAVAILABLE, Reason.EXTENDER_STALE),
)
"""All reasons for which a pod may be unschedulable."""
_ELSEWHERE = (
    *(Reason.POOL_HAS_NO_NODES, Reason.LARGER_THAN_ANY_CARD),
    *(Reason.POOL_NOT_READY, Reason.NO_FREE_BLOCK),
)
"""Reasons that another pool would remove."""


_VOLUME_REMEDY = (
    "`kubectl describe pv` shows the node affinity of volumes. Recreate the pod with that zone in "
    "its node selector, so that a pool with nodes there is chosen; add nodes there; or recreate "
    "the volume from a StorageClass with volumeBindingMode WaitForFirstConsumer"
)


@dataclass(frozen=True)
class PoolRoom:
    """The room that a pool has for a waiting pod."""

    nodes: int
    ready: int
    capacity: PoolCapacity
    by_node: Mapping[str, NodeCapacity] = field(default_factory=dict)

    @cached_property
    def is_extended(self) -> bool:
        """Whether a scheduler extender allocates the pool's cards."""
        return any(node.is_extended for node in self.by_node.values())

    @cached_property
    def largest(self) -> Sequence[tuple[int, str]]:
        """The largest free block of each node that takes pods, and the node: largest first."""
        free = ((max(node.free_blocks, default=0), name) for name, node in self.by_node.items())
        return sorted(free, reverse=True)


@dataclass(frozen=True, slots=True)
class UnschedulablePod:
    """A pod that has no pool or no node, or does not start, and why."""

    pod: Pod
    reason: str
    """Reason of the operator, or else of the scheduler."""
    message: str
    """Message, with the action that would unblock the pod."""
    pool: str = ""
    """The one that it is for; empty where that is none that there is, or one of several."""
    no_demand: NoDemand | None = None
    """Why the pod is no demand of any pool that it selects; None where it is a demand."""


def judge_pod(
    pod: Pod,
    pools: Mapping[str, PoolRoom | None],
    now: datetime,
    *,
    opted_out: bool = False,
    grace: timedelta = GRACE,
) -> UnschedulablePod | None:
    """Explain why `pod` is unschedulable; None if it is not, or if it is too early to know.

    `opted_out`: its namespace asks that its pods be assigned to no pool. `pools` are all that
    exist, by name; None for one that can't be read. A pod that waits is judged once the scheduler
    has tried and failed. Where several reasons hold, one that waiting does not fix goes first.
    """
    if (pod.node and not pod.unrouted) or pod.deleting or not pod.is_live:
        return None
    if pod.created is not None and now - pod.created < grace:
        return None
    if pod.unrouted and pools and not opted_out:
        cause = Reason.UNROUTED, _explain_unrouted(pod)
    elif pod.node or not pod.unschedulable:
        return None
    elif pod.pools:
        cause = _find_cause(pod, [pools[name] for name in pod.pools if name in pools])
    elif not pod.requests.keys().isdisjoint(names.SHARED_RESOURCES):
        cause = _quote_scheduler(pod, "")
    else:
        return None
    if cause[0] in _ELSEWHERE and (hint := _find_other_pool(pod, pools)):
        cause = cause[0], f"{cause[1]}. {hint}"
    known = [name for name in pod.pools if name in pools]
    pool = known[0] if len(known) == 1 else ""
    return UnschedulablePod(pod, *cause, pool)


def group_by_pool(pods: Iterable[Pod]) -> Mapping[str, Sequence[Pod]]:
    """Group the pods by the pools that they select; a pool that nobody selects is left out."""
    groups: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        for pool in pod.pools:
            groups[pool].append(pod)
    return groups


def find_room(pool_plans: PoolPlans, now: datetime, pending: Iterable[Pod] = ()) -> PoolRoom:
    """Return what a pool in this state has; `pending` pods select it and have no node."""
    return PoolRoom(
        nodes=len(pool_plans.capacities),
        ready=pool_plans.counts[NodeState.READY],
        capacity=sum_capacity(pool_plans.capacities.values(), pending, now),
        by_node=dict(
            zip(pool_plans.capacities, close_tainted(pool_plans.capacities.values()), strict=True)
        ),
    )


def tell_to_recreate(pod: Pod) -> str:
    """Tell how to recreate a pod, so that it is assigned to a pool again."""
    command = join(["kubectl", "-n", pod.namespace, "delete", "pod", pod.name])
    return command if pod.owner else f"{command}, then create it again from its manifest"


def _find_other_pool(pod: Pod, pools: Mapping[str, PoolRoom | None]) -> str:
    """Name a pool that has room now, of the others that could take the pod at its creation."""
    for name in pod.ranked_pools:
        room = pools.get(name)
        if room is None or name in pod.pools:
            continue
        free = room.capacity.largest_free
        if free >= pod.gpu_memory_per_card(is_extended=room.is_extended) > 0:
            return (
                f"Pool {name} accepts the pod too, and has {free} {room.capacity.unit} free on one "
                f"card. To have a pool chosen again: {tell_to_recreate(pod)}"
            )
    return ""


def _quote_scheduler(pod: Pod, where: str) -> tuple[Reason, str]:
    if pod.unscheduled[0] == SCHEDULER_ERROR:
        return explain_scheduler_error(pod.unschedulable)
    return Reason.UNSCHEDULABLE, (
        f"The scheduler finds no node{where}: {pod.unschedulable.rstrip('.')}. "
        f"{_tell_to_explain(pod)} what each node lacks"
    )


def _tell_to_explain(pod: Pod) -> str:
    return f"`kubectl gpushare explain pod {pod.name} -n {pod.namespace}` shows"


def _explain_unrouted(pod: Pod) -> str:
    if not pod.node:
        where = "It may run on any node with room"
    elif pod.cards:
        where = f"It runs on node {pod.node}"
    else:
        where = f"It is on node {pod.node} without a card: its nodeName was set by hand"
    return (
        f"The pod requests shared GPU but selects no pool. {where}. In {names.EXEMPT_NAMESPACE} "
        f"and the operator's namespace, set {names.LABEL_POOL} in its template's node selector. "
        "Elsewhere, check the webhook with `kubectl gpushare doctor`. If it answers, recreate "
        f"the pod: {tell_to_recreate(pod)}"
    )


def _find_cause(pod: Pod, found: Sequence[PoolRoom | None]) -> tuple[Reason, str]:
    """Explain why a pod that selects pools, of which these exist, has no node."""
    selected = f"pool {' or '.join(pod.pools)}"
    by_scheduler = _quote_scheduler(pod, f" in {selected}")
    if not found:
        return Reason.POOL_NOT_FOUND, (
            f"The pod selects {selected}, which does not exist. Create the pool, or change "
            f"{names.LABEL_POOL} in the node selector of the pod's template, and recreate the pod"
        )
    rooms = [room for room in found if room is not None]
    if len(rooms) < len(found):
        return by_scheduler
    if not any(room.nodes for room in rooms):
        return Reason.POOL_HAS_NO_NODES, (
            f"No node is in {selected}. Add a node that its spec.nodes selects. A node pool that "
            f"scales from zero must itself carry {names.LABEL_POOL} and the label of the mode"
        )
    asked = _ask_least(pod, rooms)
    cards = [room.capacity.largest_card for room in rooms]
    unit = rooms[0].capacity.unit
    if all(cards) and asked > max(cards):
        return Reason.LARGER_THAN_ANY_CARD, (
            f"The pod requests {asked} {unit} on one card, but the largest card of {selected} has "
            f"{max(cards)}. Request less, or add nodes with larger cards"
        )
    if pod.unscheduled[0] == SCHEDULER_ERROR:
        # It had found nodes: what they have is not what the pod waits for.
        return by_scheduler
    if conflict := find_volume_conflict(pod.unschedulable):
        return Reason.VOLUME_CONFLICT, (
            f"A volume of the pod can only be used in a zone, or on nodes, where {selected} has no "
            f"node with room: {conflict}. {_VOLUME_REMEDY}"
        )
    if not any(room.ready for room in rooms):
        return Reason.POOL_NOT_READY, (
            f"No node of {selected} is ready. The pod is scheduled automatically once one is. "
            f"`kubectl describe gsp {pod.pools[0]}` shows what they wait for"
        )
    if pod.lacks_gpu is False:
        return by_scheduler
    free = max(room.capacity.largest_free for room in rooms)
    if asked > free and any(room.capacity.memory_total for room in rooms):
        return Reason.NO_FREE_BLOCK, (
            f"The pod requests {asked} {unit} on one card, but no card of {selected} on a "
            f"schedulable node has more than {free} free. It is scheduled automatically once other "
            f"pods finish; {_tell_to_explain(pod)} the cards"
        )
    return _find_stale_extender(pod, rooms, unit) or by_scheduler


def _ask_least(pod: Pod, rooms: Iterable[PoolRoom]) -> int:
    """Count the units that the pod needs of a card in the pool where it needs least."""
    return min(pod.gpu_memory_per_card(is_extended=room.is_extended) for room in rooms)


def _find_stale_extender(
    pod: Pod, rooms: Sequence[PoolRoom], unit: str
) -> tuple[Reason, str] | None:
    """Tell whether the extender refused more nodes than lack room by its own annotations on pods.

    Professional pools have none. A node outside the pool may carry its label still: it counts among
    the refused alone.
    """
    asked = _ask_least(pod, rooms)
    nodes = [each for room in rooms if room.is_extended for each in room.largest]
    roomy = [(free, name) for free, name in nodes if free >= asked]
    refused, others = count_refused(pod.unschedulable)
    if refused <= len(nodes) - len(roomy) or others >= len(roomy):
        return None
    free, name = max(roomy)
    found = (
        f"node {name} has room"
        if len(roomy) == 1
        else f"{len(roomy)} nodes have room, such as {name}"
    )
    return Reason.EXTENDER_STALE, (
        f"The scheduler extender refused {refused} nodes for lack of GPU memory on one card, but "
        f"{found} ({free} {unit} on one card). If this lasts for more than a minute, the extender "
        f"missed a change of the node's cards, or counts memory that no pod holds. "
        f"{RESTART_CHECKED}"
    )
