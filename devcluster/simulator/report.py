"""Plans the patches of a node's status and of the simulator's annotations on it."""

import json
import math
from collections.abc import Mapping

from devcluster import names
from devcluster.apiobject import Object
from devcluster.simulator import boot
from devcluster.simulator.components import is_installed
from devcluster.simulator.devices import find_report
from devcluster.simulator.faults import Faults
from devcluster.simulator.memory import Memory
from devcluster.simulator.objects import Node
from devcluster.simulator.sharing import build_labels
from devcluster.simulator.status import build_ready_condition


def find_report_time(memory: Memory, node: Node, faults: Faults, now: float) -> float | None:
    """Return the time of the kubelet's next report that changes the status; None at rest.

    Source: a kubelet compares every `nodeStatusUpdateFrequency`, counted from its start, and
    writes what differs. An instant that has passed stays until the node shows it.
    """
    started = memory.kubelet_started_at
    if started is None or faults.not_ready or not _plan_amounts(memory, node, faults, now):
        return None
    period = faults.report_period_seconds
    due = started + period * (math.floor((now - started) / period) + 1) if period else now
    return due if memory.report_at is None else min(memory.report_at, due)


def plan_node_patch(
    memory: Memory, node: Node, faults: Faults, used_mib: Mapping[int, int], now: float
) -> Object | None:
    """Plan the patch of the node; None if it is up to date.

    `used_mib` is the memory in use by card, where it is reported.
    """
    notes = _plan_notes(memory, node, used_mib)
    due = memory.report_at is not None and memory.report_at <= now
    amounts = _plan_amounts(memory, node, faults, now) if due else {}
    status: Object = {
        field: _plan_count(memory, node, getattr(node, field)) | amounts.get(field, {})
        for field in ("capacity", "allocatable")
    }
    status = {field: changed for field, changed in status.items() if changed}
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


def plan_label_patch(memory: Memory, node: Node) -> Object | None:
    """Plan the patch of the labels of GPU feature discovery; None if they are up to date."""
    wanted: dict[str, str] = {}
    for run in memory.runs.values():
        if run.component == names.FEATURE_DISCOVERY and run.serving:
            wanted |= build_labels(run.read.config, node)
    labels = {key: value for key, value in wanted.items() if node.labels.get(key) != value}
    return {"metadata": {"uid": node.uid, "labels": labels}} if labels else None


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
    reports = {
        resource: find_report(endpoint, faults, now)
        for resource, endpoint in memory.endpoints.items()
        if endpoint.lost_at is None or not faults.keeps_old_resource
    }
    capacity = {resource: report.capacity for resource, report in reports.items()}
    allocatable = {resource: report.allocatable for resource, report in reports.items()}
    return {
        field: changed
        for field, wanted, shown in (
            ("capacity", capacity, node.capacity),
            ("allocatable", allocatable, node.allocatable),
        )
        if (changed := {r: v for r, v in wanted.items() if shown.get(r) != v})
    }


def _plan_count(memory: Memory, node: Node, shown: Mapping[str, str]) -> dict[str, str]:
    """Plan the number of cards, which sharing plugins write by themselves and at once."""
    counts = [
        str(node.cards if run.offer[names.GPU_MEM] else 0)
        for run in memory.runs.values()
        if names.GPU_MEM in run.offer
    ]
    changed = counts and counts[-1] != shown.get(names.GPU_COUNT)
    return {names.GPU_COUNT: counts[-1]} if changed else {}
