"""Decides which waiting pods are demand of a pool: those that may get its free memory.

The requests of a pod that can't get any must not affect where other pods go.
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
"""How long a new pod counts as demand without the scheduler's word that it lacks GPU memory."""


class NoDemand(StrEnum):
    """Reasons why a waiting pod is no demand, each as a clause for messages."""

    GATED = "its scheduling gates hold it back"
    DELETING = "it is being deleted"
    OTHER_CAUSE = "the scheduler names no GPU resource that it lacks"
    UNANSWERED = f"the scheduler has neither placed nor refused it in {UNANSWERED_MINUTES} minutes"
    TOO_LARGE = "no node of the pool is large enough for it"


class NodeSize(NamedTuple):
    """The resources of a node without pods; cards count as equal, memory in the plugin's unit."""

    cards: int
    memory: int
    """The memory of each card."""
    is_extended: bool
    """Whether a scheduler extender allocates the cards."""
    compute: float = inf
    """The sum of `aliyun.com/gpu-core.percentage` over all cards, in percent."""
    host: HostResources = UNLIMITED


class Amount(NamedTuple):
    """The resources that a pod requests; the first three are as `gpu_request.count_per_card` takes
    them."""

    memory: int
    card_memory: int
    card_count: int
    compute: int
    host: HostResources

    def count_per_card(self, *, is_extended: bool) -> tuple[int, int]:
        """Return the memory that the pod needs of one card, and the number of cards it needs."""
        return count_per_card(*self[:3], is_extended=is_extended)

    def fits(self, size: NodeSize) -> bool:
        """Return whether an empty node of this `size` has these resources."""
        units, cards = self.count_per_card(is_extended=size.is_extended)
        is_small = units <= size.memory and cards <= size.cards
        # kube-scheduler counts init containers, which an extender leaves out.
        is_small &= self.memory <= size.cards * size.memory
        return is_small and self.compute <= size.compute and all(map(le, self.host, size.host))


def find_no_demand(pod: Pod, sizes: Collection[NodeSize], now: datetime) -> NoDemand | None:
    """Find why `pod`, which waits for a pool with nodes of these `sizes`, is no demand; else None.

    Without any known node no pod is too large: there is no free memory that it could be counted
    against. A card that is not known yet is not free memory either, so a pod that only such a card
    could hold is too large for the known ones.
    """
    if (cause := find_cause_of_its_own(pod)) is not None:
        return cause
    if is_over(find_end(pod), now):
        return NoDemand.UNANSWERED
    return None if fits_any(read_amount(pod), sizes) else NoDemand.TOO_LARGE


def find_cause_of_its_own(pod: Pod) -> NoDemand | None:
    """Find why a waiting `pod` is no demand of any pool, whatever cards the pool has."""
    if pod.gates:
        return NoDemand.GATED
    if pod.deleting:
        # kube-scheduler skips it ("skipPodSchedule"), for as long as a finalizer keeps it.
        return NoDemand.DELETING
    return NoDemand.OTHER_CAUSE if pod.lacks_gpu is False else None


def find_end(pod: Pod) -> datetime | None:
    """Return until when a waiting `pod` is demand without the scheduler's word on what it lacks.

    None where the scheduler has said that it lacks GPU memory. The pod's scheduler may not exist,
    or be stuck, and a SchedulerError says nothing about free memory.
    """
    if pod.lacks_gpu or pod.created is None:
        return None
    return pod.created + timedelta(minutes=UNANSWERED_MINUTES)


def is_over(end: datetime | None, now: datetime) -> bool:
    """Return whether demand that lasts until `end` is over; None never ends."""
    return end is not None and end <= now


def fits_any(amount: Amount, sizes: Collection[NodeSize]) -> bool:
    """Return whether an empty node of one of these sizes has `amount`; True without any size."""
    return not sizes or any(map(amount.fits, sizes))


def read_amount(pod: Pod) -> Amount:
    """Read the resources that `pod` requests."""
    compute = pod.requests.get(names.RESOURCE_GPU_CORE, 0)
    return Amount(pod.gpu_memory, pod.card_memory, pod.card_count, compute, pod.host)
