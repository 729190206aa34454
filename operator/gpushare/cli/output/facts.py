"""Describes nodes, pods and pools in the same words for several commands."""

from dataclasses import replace
from typing import Any

from gpushare.analysis.inspect.pools import Card
from gpushare.api.status import PoolCapacity
from gpushare.cli.output.tables import describe, tell_time
from gpushare.core.records.change_record import Change
from gpushare.core.snapshot.actions import NodePlan
from gpushare.core.snapshot.isolation import ContainerIsolation, NodeIsolation
from gpushare.core.status.unschedulable_pods import UnschedulablePod

Json = dict[str, Any]


def describe_change(change: Change | None, plan: NodePlan | None) -> Json | None:
    """Describe the change of a node with this `plan`; None where there is none."""
    if change is None:
        return None
    return {
        "pool": change.pool,
        "from": str(change.from_mode),
        "to": str(change.to),
        "phase": str(change.phase),
        "since": tell_time(change.since),
        "waitsFor": None if plan is None else plan.message,
        "deadline": None if plan is None else tell_time(plan.facts.deadline),
        "failed": None if change.failure is None else change.failure.message,
    }


def describe_plan(plan: NodePlan) -> Json:
    """Describe the state of a node, and why it is in it."""
    return {"state": str(plan.state), "reason": str(plan.reason), "message": plan.message}


def describe_isolation(isolation: NodeIsolation) -> Json:
    """Describe the isolation of a node's containers."""
    samples = [tell_stale(each) for each in isolation.samples]
    return {**describe(replace(isolation, samples=())), "samples": samples}


def describe_capacity(capacity: PoolCapacity) -> Json:
    """Describe what the cards of a pool hold."""
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
    """Describe a pod that waits for a pool or a node, and why."""
    return {
        "namespace": waiting.pod.namespace,
        "name": waiting.pod.name,
        "requested": waiting.pod.gpu_memory,
        "pools": list(waiting.pod.pools),
        "reason": str(waiting.reason),
        "message": waiting.message,
        "gates": list(waiting.pod.gates),
        "noDemand": describe(waiting.no_demand),
    }


def describe_card(card: Card) -> Json:
    """Describe a card; amounts in the plugin's unit."""
    return {
        "index": card.index,
        "total": card.total,
        "allocated": card.allocated,
        "pods": list(card.pods),
        "held": dict(card.held),
        "overcommitted": card.is_overcommitted,
        "unhealthy": card.is_unhealthy,
    }


def describe_allocated(card: Json) -> str:
    """Say how much of a card is allocated, and whether the scheduler allocates the rest."""
    return f"{card['allocated']}/{card['total']}{' unhealthy' * card['unhealthy']}"


def tell_stale(stale: ContainerIsolation) -> str:
    """Say which container has stale isolation, and what it has instead."""
    has = "is" if stale.isolated else "is not"
    return (
        f"{stale.container} of pod {stale.pod.namespace}/{stale.pod.name} {has} isolated: admitted "
        f"under {stale.admitted}, but the node is {stale.mode}"
    )
