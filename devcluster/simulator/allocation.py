"""Allocates devices to a container when its pod is admitted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from devcluster import names
from devcluster.simulator.faults import MIB_PER_GIB, Faults
from devcluster.simulator.ledger import Units
from devcluster.simulator.objects import Container, Node, Pod, parse_object
from devcluster.simulator.plugin import Read, is_isolated

CGPU_SLACK = 1.05  # guide 000: 3 GiB shows as 3226 MiB; guide 003: 4 GiB as 4301 MiB
CARD_EXTRA_MIB = 770  # guide 000: a card that counts as 15 GiB shows 16130 MiB


@dataclass(frozen=True)
class Got:
    """Devices of a container, which a restart of the container does not change."""

    isolated: bool
    cards: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    plugin: str = ""  # UID of the plugin pod that served it
    visible_memory_mib: int = 0  # what nvidia-smi shows inside, of one card
    boot_id: str = ""  # of the node, when it got that

    @property
    def start_error(self) -> str:
        """Error that keeps the container from starting; empty if it can start."""
        devices = self.env.get(names.VISIBLE_DEVICES, "")
        return f"unknown device id: {devices}" if devices.startswith("no-gpu-has-") else ""


def card_total_mib(node: Node) -> int:
    """Return the memory of one card as nvidia-smi shows it, in MiB."""
    return node.card_memory_gib * MIB_PER_GIB + CARD_EXTRA_MIB


def give_shared(
    pod: Pod,
    container: Container,
    node: Node,
    cards: Units | None,
    *,
    plugin: str,
    read: Read,
    module: str,
    mps_running: bool,
    faults: Faults,
) -> Got:
    """Allocate as a sharing plugin does for a container that requests gpu-mem.

    `cards` are those of the pod that the plugin found; with None the container fails to start, as
    with the real plugin, which does not refuse the call.
    """
    units = container.limits[names.GPU_MEM]
    index = ",".join(map(str, sorted(cards))) if cards else "-1"
    env = {
        names.VISIBLE_DEVICES: index if cards else f"no-gpu-has-{units}{faults.memory_unit}-to-run",
        names.MEM_IDX: index,
        names.MEM_POD: str(pod.demand(names.GPU_MEM)),
        names.MEM_CONTAINER: str(units),
        names.MEM_DEV: str(node.card_memory_gib * MIB_PER_GIB // faults.memory_unit_mib),
    }
    if read.disables_isolation:
        env[names.CGPU_DISABLE] = "true"
    if not cards:
        return Got(isolated=False, cards=(-1,), env=env, plugin=plugin)
    isolated = is_isolated(
        read, {**container.env, **env}, module=module, mps_running=mps_running, faults=faults
    )
    per_card_mib = units * faults.memory_unit_mib / len(cards)
    visible = round(per_card_mib * CGPU_SLACK) if isolated else card_total_mib(node)
    return Got(isolated, tuple(sorted(cards)), env, plugin, visible, node.boot_id)


def give_whole(
    count: int, taken: Sequence[int], node: Node, *, plugin: str, replicas: int = 1
) -> Got:
    """Allocate as a whole-card plugin does: the lowest free cards, with all their memory.

    If a card is offered several times, those with the fewest containers come first.
    """
    free = [i for i in range(node.cards) if taken.count(i) < replicas]
    cards = tuple(sorted(sorted(free, key=taken.count)[:count]))
    env = {names.VISIBLE_DEVICES: ",".join(map(str, cards))}
    return Got(
        isolated=False, cards=cards, env=env, plugin=plugin, visible_memory_mib=card_total_mib(node)
    )


def give_unaccounted(node: Node) -> Got:
    """Allocate for a GPU container without a request: all cards, without isolation."""
    return Got(
        isolated=False, cards=tuple(range(node.cards)), visible_memory_mib=card_total_mib(node)
    )


def build_record(got: Mapping[str, Got]) -> str:
    """Build the value of the annotation `sim.devcluster/containers`."""
    record = {
        name: {
            "isolated": one.isolated,
            "env": dict(one.env),
            "card": one.cards[0] if one.cards else None,
            "cards": list(one.cards),
            "plugin": one.plugin,
            "visible_memory_mib": one.visible_memory_mib,
            "boot_id": one.boot_id,
        }
        for name, one in got.items()
    }
    return json.dumps(record, sort_keys=True)


def parse_record(text: str | None) -> dict[str, Got] | None:
    """Parse the result of `build_record`; None if the pod was not admitted yet."""
    record = parse_object(text)
    if record is None:
        return None
    return {
        name: Got(
            isolated=bool(one["isolated"]),
            cards=tuple(one["cards"]),
            env=one["env"],
            plugin=one["plugin"],
            visible_memory_mib=int(one["visible_memory_mib"]),
            boot_id=one.get("boot_id", ""),
        )
        for name, one in record.items()
    }
