"""Plays the actual use of cards' memory, which only isolation limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from devcluster import names
from devcluster.simulator.allocation import Got
from devcluster.simulator.faults import MIB_PER_GIB
from devcluster.simulator.objects import Pod

OUT_OF_MEMORY = (
    "CUDA error: out of memory, code=2(cudaErrorMemoryAllocation)"  # guide 003's crash-loop
)


@dataclass(frozen=True)
class Use:
    """A container's need for GPU memory on its cards."""

    pod: str  # UID
    container: str
    cards: tuple[int, ...]
    needs_mib: int  # of each card
    isolated: bool
    visible_mib: int


def find_uses(pod: Pod, got: Mapping[str, Got], unit_mib: int) -> list[Use]:
    """Find the needs of a pod's containers: their requests, or the annotation `uses-gib`.

    `unit_mib` is one unit of gpu-mem. The annotation is for the pod's first GPU container; an
    invalid one is no need.
    """
    uses = []
    overuse = _gib(pod.annotations.get(names.USES_GIB))
    for container in pod.containers:
        one = got.get(container.name)
        if one is None or not one.cards or one.start_error:
            continue
        asked = container.limits.get(names.GPU_MEM, 0)
        mib = asked * unit_mib if overuse is None else overuse * MIB_PER_GIB
        overuse = None
        needs = round(mib / len(one.cards))
        uses.append(
            Use(pod.uid, container.name, one.cards, needs, one.isolated, one.visible_memory_mib)
        )
    return uses


def plan_memory(
    uses: Iterable[Use], card_mib: int
) -> tuple[dict[int, int], frozenset[tuple[str, str]]]:
    """Return the MiB in use by card, and the containers (pod UID, name) that can't get theirs.

    In the order of admission: an isolated container fails alone beyond its share; any other uses
    what it needs, and a later one fails if too little is left.
    """
    used: dict[int, int] = {}
    failing = set()
    for use in uses:
        most = use.visible_mib if use.isolated else card_mib
        room = min(card_mib - used.get(card, 0) for card in use.cards)
        if use.needs_mib > min(most, room):
            failing.add((use.pod, use.container))
            continue
        for card in use.cards:
            used[card] = used.get(card, 0) + use.needs_mib
    return used, frozenset(failing)


def _gib(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None
