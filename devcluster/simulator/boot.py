"""A node's boots: what a reboot ends, and what is there again after it."""

import uuid
from collections.abc import Iterable
from dataclasses import replace

from devcluster import names
from devcluster.simulator import components, teardown
from devcluster.simulator.devices import lose
from devcluster.simulator.faults import Faults
from devcluster.simulator.memory import Memory
from devcluster.simulator.objects import Node, Pod


def has_rebooted(memory: Memory, node: Node) -> bool:
    """Tell whether a node is in another boot than the one that is remembered."""
    return node.boot_id != memory.boot_id


def find_starting(memory: Memory, node: Node, pods: Iterable[Pod]) -> list[Pod]:
    """Return the components whose process starts now: what they read must be fresh."""
    return components.find_starting({} if has_rebooted(memory, node) else memory.runs, pods)


def shut_down(memory: Memory, node: Node, now: float) -> Memory:
    """Let kured reboot a node that asks for it: the node goes away.

    Source: kured's manual; it looks for a sentinel file on every node.
    """
    asked = node.annotations.get(names.SENTINEL) == node.annotations.get(names.KURED) == "true"
    return replace(memory, down_since=now) if asked and memory.down_since is None else memory


def next_boot_time(memory: Memory, faults: Faults) -> float | None:
    """Return when a node that went away boots; None for any other, and for one that never will."""
    if memory.down_since is None or faults.never_boots:
        return None
    return memory.down_since + faults.reboot_seconds


def find_next_boot(memory: Memory, faults: Faults, now: float) -> str | None:
    """Return the boot ID to report of a node that boots now: its reboot counts once it is seen."""
    due = next_boot_time(memory, faults)
    if due is None or now < due:
        return None
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{memory.node_uid} after {memory.boot_id}"))


def reboot(memory: Memory, node: Node, faults: Faults, now: float) -> Memory:
    """Let every process of a node start again, if it has rebooted.

    The kernel module is loaded again unless its files were removed. The pods that ran are admitted
    anew, as if they came for the first time; refused ones stay refused.
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
        module="" if removed else memory.module,
        down_since=None,
        runs={},
        jobs=teardown.cut_off(memory.jobs),
        endpoints=lose(memory.endpoints, {e.plugin for e in memory.endpoints.values()}, now),
        bound_at={**memory.bound_at, **ran},
        returning=memory.returning | ran.keys(),
        admissions=refused,
    )
