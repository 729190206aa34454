"""Plays reboots of a node, and restarts of its kubelet."""

import uuid
from dataclasses import replace

from devcluster import names
from devcluster.simulator import components, teardown
from devcluster.simulator.devices import begin_boot
from devcluster.simulator.faults import Faults
from devcluster.simulator.memory import Memory
from devcluster.simulator.objects import Node, Pod
from devcluster.simulator.sharing import Configs


def has_rebooted(memory: Memory, node: Node) -> bool:
    """Tell whether a node has another boot ID than the remembered one."""
    return node.boot_id != memory.boot_id


def has_kubelet_restarted(memory: Memory, node: Node) -> bool:
    """Tell whether a node's kubelet was restarted more often than remembered."""
    return node.kubelet_restarts > memory.kubelet_restarts and not has_rebooted(memory, node)


def find_reading(memory: Memory, node: Node, pods: tuple[Pod, ...], configs: Configs) -> list[Pod]:
    """Find the components that read their node now, which must be up to date."""
    runs = {} if has_rebooted(memory, node) else memory.runs
    restarted = has_kubelet_restarted(memory, node)
    return [
        *components.find_starting(runs, pods, node, configs),
        *components.find_rebuilt(runs, pods, node, configs, kubelet_restarted=restarted),
    ]


def start_kubelet(memory: Memory, faults: Faults, now: float) -> Memory:
    """Start a booted node's kubelet, unless a fault delays it; it reports its status at once."""
    if memory.kubelet_started_at is not None or faults.not_ready:
        return memory
    return replace(memory, kubelet_started_at=now, report_at=now)


def restart_kubelet(memory: Memory, node: Node, now: float) -> Memory:
    """Record a restart of the kubelet, if there was one; its pods go on."""
    if not has_kubelet_restarted(memory, node):
        return memory
    restarts = node.kubelet_restarts
    return replace(memory, kubelet_started_at=now, kubelet_restarts=restarts, report_at=None)


def shut_down(memory: Memory, node: Node, now: float) -> Memory:
    """Shut down a node with kured's sentinel file, as kured does to reboot it.

    Source: kured's manual.
    """
    asked = node.annotations.get(names.SENTINEL) == node.annotations.get(names.KURED) == "true"
    return replace(memory, down_since=now) if asked and memory.down_since is None else memory


def next_boot_time(memory: Memory, faults: Faults) -> float | None:
    """Return the time at which a shut-down node boots; None for others, and if it never does."""
    if memory.down_since is None or faults.never_boots:
        return None
    return memory.down_since + faults.reboot_seconds


def find_next_boot(memory: Memory, faults: Faults, now: float) -> str | None:
    """Return the boot ID of a node that boots now; the reboot counts once the ID is reported."""
    due = next_boot_time(memory, faults)
    if due is None or now < due:
        return None
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{memory.node_uid} after {memory.boot_id}"))


def reboot(memory: Memory, node: Node, faults: Faults, now: float) -> Memory:
    """Restart every process of a node, if it has rebooted.

    The kernel module is loaded again unless its files were removed. The kubelet admits the pods
    that ran like new ones when it starts: no plugin has registered by then, so it refuses pods with
    a device.

    Source: kubelet 1.37's device manager, `devicesToAllocate`, on a reboot.
    """
    if not has_rebooted(memory, node):
        return memory
    removed = (
        names.UNINSTALL in node.annotations
        and not components.is_installed(memory.runs)
        and not faults.module_survives_reboot
    )
    refused = {uid: a for uid, a in memory.admissions.items() if a.reason}
    ran = {uid: a.at for uid, a in memory.admissions.items() if uid not in refused}
    return replace(
        memory,
        boot_id=node.boot_id,
        kubelet_started_at=None,
        kubelet_restarts=node.kubelet_restarts,
        report_at=None,
        module="" if removed else memory.module,
        down_since=None,
        runs={},
        jobs=teardown.cut_off(memory.jobs),
        endpoints=begin_boot(memory.endpoints, now),
        bound_at={**memory.bound_at, **ran},
        admissions=refused,
    )
