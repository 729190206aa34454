"""A pool as admission sees it: what it gives, to whom, and what room it has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from gpushare import names
from gpushare.api.nodeselection import Known
from gpushare.api.pool import Edition, PoolSpec, ReconcilePolicy, Schedule
from gpushare.api.selector import LabelSelector, SelectorOperator
from gpushare.api.status import PoolCapacity
from gpushare.api.workloads import Binding, Selection
from gpushare.core.capacity import MIB_PER_GIB
from gpushare.core.modes import MODES

Labels = tuple[tuple[str, str], ...]
ISOLATED_SCHEDULES = frozenset({Schedule.CGPU, Schedule.MPS, Schedule.CORE_MEM})
"""Modes that keep containers to their share of memory, each in its own way."""


@dataclass(frozen=True, slots=True)
class Room:
    """What of a pool's GPU memory is free, in units of the device plugin, in which pods ask."""

    free_blocks: tuple[tuple[int, int], ...] = ()
    """Cards by their free memory: (memory, number of cards), largest first."""
    pending: int = 0
    """Memory that pods ask for which have no card yet."""
    total: int = 0
    largest_card: int = 0
    """0 where that is not known."""

    @property
    def free(self) -> int:
        return sum(size * cards for size, cards in self.free_blocks) - self.pending


@dataclass(frozen=True, slots=True)
class PoolView:
    """All of a pool that the choice for a pod depends on."""

    name: str
    schedule: Schedule
    priority: int = 100
    edition: Edition = Edition.PROFESSIONAL
    is_leaving: bool = False
    """It is being deleted."""
    observes: bool = False
    """It writes nothing: its nodes don't carry its labels."""
    on_request: bool = False
    """It takes only pods that ask for it."""
    namespace_selector: LabelSelector | None = field(default=None, hash=False)
    pod_selector: LabelSelector | None = field(default=None, hash=False)
    selects_mode: bool = False
    """Pods that are sent here select the mode's labels, not the pool's."""
    tolerations: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """As in a pod's spec."""
    node_labels: Known = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """What `spec.nodes` says of its nodes' labels."""
    nodes: int | None = None
    """None until the operator has counted them."""
    room: Room | None = None
    """None while the pool's capacity is not known."""
    observed_at: str = ""
    """When `room` last changed."""

    # What follows from these.
    offers: frozenset[str] = field(init=False, compare=False)
    """GPU resources of its mode."""
    mode_labels: Labels = field(init=False, compare=False)
    binding: Labels = field(init=False, compare=False)
    """Node labels that a pod selects which is sent here."""
    known: Known = field(init=False, compare=False)
    """All that is known of its nodes' labels."""
    isolates: bool = field(init=False, compare=False)
    isolates_by_kernel: bool = field(init=False, compare=False)
    """What `gpushare.io/isolation: required` counts as isolation."""

    def __post_init__(self) -> None:
        mode = MODES[self.edition, self.schedule]
        whole = {names.RESOURCE_WHOLE_GPU} if self.schedule is Schedule.DEFAULT else ()
        labels = tuple(mode.labels.items())
        ours = {names.LABEL_POOL: self.name, **mode.labels}
        known = {key: (ours.get(key),) for key in (*names.MODE_LABELS, names.LABEL_POOL)}
        derived: dict[str, object] = {
            "offers": frozenset({*mode.resources, *whole}),
            "mode_labels": labels,
            "binding": labels if self.selects_mode else ((names.LABEL_POOL, self.name),),
            "known": {**self.node_labels, **known},
            "isolates": self.schedule in ISOLATED_SCHEDULES,
            "isolates_by_kernel": mode.isolated,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)


def view_pool(raw: Mapping[str, Any]) -> PoolView | None:
    """A pool from the API server's JSON; None for one that this version does not understand."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    try:
        spec = PoolSpec.model_validate(raw.get("spec") or {})
        capacity = PoolCapacity.model_validate(c) if (c := status.get("capacity")) else None
    except ValidationError:
        return None
    if (spec.edition, spec.schedule) not in MODES:
        return None
    workloads = spec.workloads
    return PoolView(
        name=metadata["name"],
        schedule=spec.schedule,
        priority=spec.priority,
        edition=spec.edition,
        is_leaving="deletionTimestamp" in metadata,
        observes=spec.reconcile is ReconcilePolicy.OBSERVE,
        on_request=workloads.selection is Selection.ON_REQUEST,
        namespace_selector=_unless_empty(workloads.namespace_selector),
        pod_selector=_unless_empty(workloads.pod_selector),
        selects_mode=workloads.binding is Binding.MODE,
        tolerations=tuple(
            toleration.model_dump(mode="json", by_alias=True, exclude_none=True)
            for toleration in workloads.tolerations
        ),
        node_labels=_known_labels(spec),
        nodes=(status.get("nodes") or {}).get("matched"),
        room=None if capacity is None else _view_room(capacity),
        observed_at="" if capacity is None else capacity.observed_at.isoformat(),
    )


def _unless_empty(selector: LabelSelector) -> LabelSelector | None:
    return selector if selector.match_labels or selector.match_expressions else None


def _known_labels(spec: PoolSpec) -> Known:
    """What all of the pool's nodes must have, since it selects them by it; named ones need not."""
    known: dict[str, tuple[str | None, ...]] = {}
    if spec.nodes.selector is not None and not spec.nodes.names:
        for requirement in spec.nodes.selector.match_expressions:
            if requirement.operator is SelectorOperator.IN:
                known[requirement.key] = requirement.values
        for key, value in spec.nodes.selector.match_labels.items():
            known[key] = (value,)
    if spec.placement is not None:
        known[names.LABEL_PLACEMENT] = (spec.placement.value,)
    return known


def _view_room(capacity: PoolCapacity) -> Room:
    # The sums are in GiB whatever the plugin counts in.
    unit = MIB_PER_GIB if capacity.unit == "MiB" else 1
    return Room(
        free_blocks=tuple((block.size, block.cards) for block in capacity.free_blocks),
        pending=max(capacity.memory_requested - capacity.memory_allocated, 0) * unit,
        total=capacity.memory_total * unit,
        largest_card=capacity.largest_card,
    )
