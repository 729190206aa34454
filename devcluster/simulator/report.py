"""What a node reports: its status, and the simulator's annotations on it."""

import json
from collections.abc import Mapping

from devcluster import names
from devcluster.apiobject import Object
from devcluster.simulator import boot
from devcluster.simulator.components import is_installed
from devcluster.simulator.devices import find_report
from devcluster.simulator.faults import Faults
from devcluster.simulator.memory import Memory
from devcluster.simulator.objects import Node
from devcluster.simulator.status import build_ready_condition


def plan_node_patch(
    memory: Memory, node: Node, faults: Faults, used_mib: Mapping[int, int], now: float
) -> Object | None:
    """Return the patch that makes the node look as it should; None if it does.

    `used_mib` is the memory in use by card, where anybody is to know.
    """
    notes = _plan_notes(memory, node, used_mib)
    status = _plan_amounts(memory, node, faults, now)
    if condition := build_ready_condition(node, not faults.not_ready, now):
        status["conditions"] = [condition]
    if boot_id := boot.find_next_boot(memory, faults, now):
        status["nodeInfo"] = {"bootID": boot_id}
        notes[names.SENTINEL] = None
    notes = {key: value for key, value in notes.items() if node.annotations.get(key) != value}
    if not status and not notes:
        return None
    metadata: Object = {"uid": node.uid}
    if notes:
        metadata["annotations"] = notes
    return {"metadata": metadata, "status": status} if status else {"metadata": metadata}


def _plan_notes(memory: Memory, node: Node, used_mib: Mapping[int, int]) -> dict[str, str | None]:
    used_gib = {str(card): round(mib / 1024, 2) for card, mib in sorted(used_mib.items())}
    notes: dict[str, str | None] = {
        names.MODULE: memory.module or None,
        names.MEMORY_USED: json.dumps(used_gib) if used_gib else None,
    }
    for job in memory.jobs.values():
        notes |= dict.fromkeys(job.leaves, "true")
    if is_installed(memory.runs):
        notes[names.UNINSTALL] = None
    return notes


def _plan_amounts(memory: Memory, node: Node, faults: Faults, now: float) -> Object:
    capacity: dict[str, str | None] = {}
    allocatable: dict[str, str | None] = {}
    for resource, endpoint in memory.endpoints.items():
        if faults.keeps_old_resource and endpoint.lost_at is not None:
            continue
        if report := find_report(endpoint, faults, now):
            capacity[resource] = report.capacity
            allocatable[resource] = report.allocatable
    for run in memory.runs.values():
        if names.GPU_MEM in run.offer:
            cards = node.cards if run.offer[names.GPU_MEM] else 0
            capacity[names.GPU_COUNT] = allocatable[names.GPU_COUNT] = str(cards)
    return {
        field: changed
        for field, wanted, shown in (
            ("capacity", capacity, node.capacity),
            ("allocatable", allocatable, node.allocatable),
        )
        if (changed := {r: v for r, v in wanted.items() if shown.get(r) != v})
    }
