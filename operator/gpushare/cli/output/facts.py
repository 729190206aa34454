"""What several commands say of nodes, pods and pools, in the same words."""

from dataclasses import replace
from typing import Any

from gpushare.api.status import PoolCapacity
from gpushare.cli.output.tables import describe, tell_time
from gpushare.core.analysis.inspect.pools import Card
from gpushare.core.records.change_record import Change
from gpushare.core.snapshot.actions import StepResult
from gpushare.core.snapshot.isolation import ContainerIsolation, NodeIsolation
from gpushare.core.status.unschedulable_pods import UnschedulablePod

Json = dict[str, Any]


def describe_change(change: Change | None, plan: StepResult | None) -> Json | None:
    """The change of a node for which `plan` stands; None where there is none."""
    if change is None:
        return None
    return {
        "pool": change.pool,
        "from": str(change.from_mode),
        "to": str(change.to),
        "phase": str(change.phase),
        "since": tell_time(change.since),
        "waitsFor": None if plan is None else plan.message,
        "deadline": None if plan is None else tell_time(plan.deadline),
        "failed": None if change.failure is None else change.failure.message,
    }


def describe_plan(plan: StepResult) -> Json:
    """Where a node is, and why."""
    return {"state": str(plan.state), "reason": str(plan.reason), "message": plan.message}


def describe_isolation(isolation: NodeIsolation) -> Json:
    """What isolation the containers of a node have."""
    samples = [tell_stale(each) for each in isolation.samples]
    return {**describe(replace(isolation, samples=())), "samples": samples}


def describe_capacity(capacity: PoolCapacity) -> Json:
    """What the cards of a pool hold."""
    return {
        "gpus": capacity.gpus,
        "memoryTotalGiB": capacity.memory_total,
        "memoryAllocatedGiB": capacity.memory_allocated,
        "memoryRequestedGiB": capacity.memory_requested,
        "largestFreeBlockGiB": capacity.largest_free_block,
        "strandedMemoryGiB": capacity.stranded_memory,
        "unit": capacity.unit,
    }


def describe_waiting(waiting: UnschedulablePod) -> Json:
    """A pod that waits for a pool or a node, and why."""
    return {
        "namespace": waiting.pod.namespace,
        "name": waiting.pod.name,
        "requested": waiting.pod.gpu_memory,
        "pools": list(waiting.pod.pools),
        "reason": str(waiting.reason),
        "message": waiting.message,
    }


def tell_allocated(card: Card) -> str:
    """What is given out of a card, and whether the scheduler gives out the rest."""
    return f"{card.allocated}/{card.total}{' unhealthy' * card.is_unhealthy}"


def describe_card(card: Card) -> Json:
    """A card; amounts in the plugin's unit."""
    return {
        "index": card.index,
        "total": card.total,
        "allocated": card.allocated,
        "pods": list(card.pods),
        "held": dict(card.held),
        "overcommitted": card.is_overcommitted,
        "unhealthy": card.is_unhealthy,
    }


def tell_stale(stale: ContainerIsolation) -> str:
    """Which container it is, and what it has instead."""
    has = "is" if stale.isolated else "is not"
    return (
        f"{stale.container} of pod {stale.pod.namespace}/{stale.pod.name} {has} isolated: admitted "
        f"under {stale.admitted}, and the node is {stale.mode}"
    )
