"""Decides which waiting pods are demand of a pool: those that may get what is free in it.

What a pod writes that can get nothing must not decide where other pods go.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf
from operator import le
from typing import NamedTuple

from gpushare import names
from gpushare.api.k8s.gpu_request import count_per_card
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.resources.host import UNLIMITED, HostResources

UNANSWERED_MINUTES = 10
"""How long a pod counts of which the scheduler has not said that it lacks GPU memory."""


class NoDemand(StrEnum):
    """Why a waiting pod is no demand, as a clause."""

    GATED = "its scheduling gates hold it back"
    DELETING = "it is being deleted"
    OTHER_CAUSE = "the scheduler names no GPU resource that it lacks"
    UNANSWERED = f"the scheduler has neither placed nor refused it in {UNANSWERED_MINUTES} minutes"
    TOO_LARGE = "no node of the pool is large enough for it"


class NodeSize(NamedTuple):
    """What a node has when no pod runs; its cards count as equal, memory in the plugin's unit."""

    cards: int
    memory: int
    """Of each."""
    is_extended: bool
    """A scheduler extender allocates them."""
    compute: float = inf
    """Percent of `aliyun.com/gpu-core.percentage`, together."""
    host: HostResources = UNLIMITED


class Amount(NamedTuple):
    """What a pod asks for, as `count_per_card` has it."""

    memory: int
    card_memory: int
    card_count: int
    compute: int
    host: HostResources

    def count_per_card(self, *, is_extended: bool) -> tuple[int, int]:
        """Count the units that it needs of one card, and of how many cards."""
        return count_per_card(*self[:3], is_extended=is_extended)

    def fits(self, size: NodeSize) -> bool:
        """Tell whether an empty node of this size has so much."""
        units, cards = self.count_per_card(is_extended=size.is_extended)
        is_small = units <= size.memory and cards <= size.cards
        # kube-scheduler counts init containers, which an extender leaves out.
        is_small &= self.memory <= size.cards * size.memory
        return is_small and self.compute <= size.compute and all(map(le, self.host, size.host))


def find_no_demand(pod: Pod, sizes: Collection[NodeSize], now: datetime) -> NoDemand | None:
    """Find why `pod`, which waits for a pool with these nodes, is no demand; None where it is.

    Where no card is known, no pod is too large: there is no room either that it could take. A card
    that is not known yet is no room, so that a pod which only that could hold takes none.
    """
    if (cause := find_cause_of_its_own(pod)) is not None:
        return cause
    if is_over(find_end(pod), now):
        return NoDemand.UNANSWERED
    return None if fits_any(read_amount(pod), sizes) else NoDemand.TOO_LARGE


def find_cause_of_its_own(pod: Pod) -> NoDemand | None:
    """Find why a waiting `pod` is no demand of any pool, whatever its cards."""
    if pod.gates:
        return NoDemand.GATED
    if pod.deleting:
        # kube-scheduler skips it ("skipPodSchedule"), for as long as a finalizer keeps it.
        return NoDemand.DELETING
    return NoDemand.OTHER_CAUSE if pod.lacks_gpu is False else None


def find_end(pod: Pod) -> datetime | None:
    """Find when a waiting `pod` is demand no more, unless the scheduler says by then what it lacks;
    None where it has.

    A scheduler of its name may not exist, or be stuck. A SchedulerError says nothing about room.
    """
    if pod.lacks_gpu or pod.created is None:
        return None
    return pod.created + timedelta(minutes=UNANSWERED_MINUTES)


def is_over(end: datetime | None, now: datetime) -> bool:
    """Tell whether demand that lasts until `end` is over."""
    return end is not None and end <= now


def fits_any(amount: Amount, sizes: Collection[NodeSize]) -> bool:
    """Tell whether a node of one of these sizes has so much; true without any."""
    return not sizes or any(map(amount.fits, sizes))


def read_amount(pod: Pod) -> Amount:
    """Read what `pod` asks for."""
    compute = pod.requests.get(names.RESOURCE_GPU_CORE, 0)
    return Amount(pod.gpu_memory, pod.card_memory, pod.card_count, compute, pod.host)
