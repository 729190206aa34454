"""Builds the API server's objects of a generated cluster."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.kit.histories.gpu_cluster import (
    POOL_LABEL,
    SHARING,
    TAINT,
    Applicant,
    GpuNode,
    GpuPool,
    Holder,
    Requirement,
)
from tests.kit.values.manifests import CORE, COUNT, MEMORY, build_container, build_pod, build_pool

Json = dict[str, Any]

_WHOLE = "nvidia.com/gpu"
_OBSERVED_AT = "2026-01-02T03:04:05Z"


def build_shared_pool(pool: GpuPool) -> Json:
    """Build a user's manifest of the pool."""
    more: Json = {"placement": pool.placement} if pool.placement else {}
    workloads: Json = {
        "selection": pool.selection,
        "binding": pool.binding,
        "namespaceSelector": {"matchLabels": dict(pool.namespaces)},
        "podSelector": {"matchLabels": dict(pool.pods)},
    }
    if pool.is_tainted:
        workloads["tolerations"] = [build_toleration(pool)]
    return build_pool(
        pool.name,
        schedule=pool.schedule,
        edition=pool.edition,
        node_pool=pool.node_pool,
        priority=pool.priority,
        reconcile=pool.reconcile,
        workloads=workloads,
        **more,
    )


def build_toleration(pool: GpuPool) -> Json:
    """Build the toleration of the pool's taint."""
    return {"key": TAINT, "operator": "Equal", "value": pool.name, "effect": "NoSchedule"}


def build_living_pool(pool: GpuPool) -> Json:
    """Build the pool of the API server, with a current status."""
    raw = build_shared_pool(pool)
    raw["metadata"] |= {
        "uid": f"uid-of-{pool.name}",
        "generation": 1,
        "creationTimestamp": _OBSERVED_AT,
        **({"deletionTimestamp": _OBSERVED_AT} if pool.is_deleting else {}),
    }
    ready = sum(node.is_ready for node in pool.nodes)
    raw["status"] = {
        "observedGeneration": 1,
        "nodes": {"matched": len(pool.nodes), "ready": ready},
        "capacity": count_capacity(pool),
    }
    return raw


def count_capacity(pool: GpuPool) -> Json:
    """Count the capacity in the pool's status."""
    cards = [card for node in pool.nodes if _offers(pool, node) for card in _list_cards(node)]
    held = sum(sum(holder.cards.values()) for node in pool.nodes for holder in node.holders)
    sizes = [node.card_memory if _offers(pool, node) else 0 for node in pool.nodes]
    free = Counter(card for card in cards if card)
    unit = "MiB" if max(sizes, default=0) >= 1024 else "GiB"
    per_gib = 1024 if unit == "MiB" else 1
    total = sum(node.cards * node.card_memory for node in pool.nodes if _offers(pool, node))
    return {
        "observedAt": _OBSERVED_AT,
        "gpus": sum(node.cards for node in pool.nodes),
        "memoryTotal": total // per_gib,
        "memoryAllocated": held // per_gib,
        "memoryRequested": (held + sum(pool.waiting)) // per_gib,
        "unit": unit,
        "largestCard": max(sizes, default=0) if all(sizes) else 0,
        "freeBlocks": [{"size": size, "cards": free[size]} for size in sorted(free, reverse=True)],
    }


def _offers(pool: GpuPool, node: GpuNode) -> bool:
    return node.has_plugin and pool.schedule in SHARING


def _list_cards(node: GpuNode) -> Iterator[int]:
    """List the free memory of each card; empty for a node that accepts no pods."""
    takes_pods = node.is_ready and not node.is_cordoned
    for card in range(node.cards):
        held = sum(holder.cards.get(card, 0) for holder in node.holders)
        yield max(node.card_memory - held, 0) if takes_pods else 0


def build_node(pool: GpuPool, node: GpuNode) -> Json:
    """Build the node as reported by its kubelet."""
    offered = {MEMORY: str(node.cards * node.card_memory)} if _offers(pool, node) else {}
    status = "True" if node.is_ready else "False"
    return {
        "metadata": {"name": node.name, "uid": f"uid-of-{node.name}", "labels": pool.node_labels},
        "spec": {"unschedulable": True} if node.is_cordoned else {},
        "status": {
            "capacity": {**offered, COUNT: str(node.cards)},
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": status}],
        },
    }


def build_holder(pool: GpuPool, node: GpuNode, holder: Holder) -> Json:
    """Build a running pod on the node, with annotations of the edition's scheduler."""
    return build_pod(
        holder.name,
        gib=sum(holder.cards.values()),
        selects={POOL_LABEL: pool.name},
        annotations=build_ledger(pool, holder),
        labels={COUNT: str(len(holder.cards))} if len(holder.cards) > 1 else None,
        nodeName=node.name,
    )


def build_ledger(pool: GpuPool, holder: Holder) -> dict[str, str]:
    """Build the ledger entry of a pod as the scheduler of the pool's edition does."""
    if pool.edition == "Professional":
        cards = {str(card): units for card, units in holder.cards.items()}
        return {
            "scheduler.framework.gpushare.allocation": json.dumps({"0": cards}),
            "scheduler.framework.gpushare.assigned": "true",
            "scheduler.framework.gpushare.assume-time": "1",
        }
    ((card, units),) = holder.cards.items()
    return {"ALIYUN_COM_GPU_MEM_IDX": str(card), "ALIYUN_COM_GPU_MEM_POD": str(units)}


def build_applicant(pod: Applicant, name: str) -> Json:
    """Build the owner's manifest of the pod."""
    notes = {
        "gpushare.io/isolation": pod.isolation,
        "gpushare.io/pool": pod.wants_pool,
        "gpushare.io/inject": "disabled" if pod.opts_out else "",
    }
    annotations = {key: value for key, value in notes.items() if value}
    labels = {**pod.labels, **({"kueue.x-k8s.io/queue-name": "team"} if pod.is_queued else {})}
    raw = build_pod(name, gib=None, selects=pod.selects, annotations=annotations, labels=labels)
    spec = raw["spec"]
    spec["containers"] = [*_build_containers(pod)]
    if pod.is_daemon:
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "a"}
        raw["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    if pod.node:
        spec["nodeName"] = pod.node
    if pod.scheduler != "default-scheduler":
        spec["schedulerName"] = pod.scheduler
    if pod.terms:
        terms = [{"matchExpressions": [_build_requirement(r) for r in term]} for term in pod.terms]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return raw


def _build_containers(pod: Applicant) -> Iterator[Json]:
    for index in range(max(len(pod.asks), 1)):
        amounts = {}
        if index < len(pod.asks):
            amounts[MEMORY] = str(pod.asks[index])
        if index == 0 and pod.core:
            amounts[CORE] = str(pod.core)
        if index == 0 and pod.whole_cards:
            amounts[_WHOLE] = str(pod.whole_cards)
        container = build_container(f"main-{index}", env=pod.environment or None)
        container["resources"] = {"limits": amounts, "requests": dict(amounts)}
        yield container


def _build_requirement(requirement: Requirement) -> Json:
    key, operator, values = requirement
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
