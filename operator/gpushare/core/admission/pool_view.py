"""A pool as admission sees it: what it offers, to which pods, and its free memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from gpushare import names
from gpushare.api.k8s.node_selection import (
    ANYWHERE,
    FOLLOWING,
    Columns,
    Known,
    NodeSelection,
    Preferences,
)
from gpushare.api.pool import (
    DEFAULT_EDITION,
    Edition,
    ModeName,
    PoolSpec,
    ReconcilePolicy,
    Schedule,
)
from gpushare.api.selector import LabelSelector, Scaling, SelectorOperator
from gpushare.api.status import NodeLabels, PoolCapacity
from gpushare.api.workloads import Binding, Selection
from gpushare.core.capacity.node_capacity import MIB_PER_GIB
from gpushare.core.capacity.room import Room
from gpushare.editions.edition import Mode
from gpushare.editions.registry import find_mode, get_mode
from gpushare.names import Reason

Labels = tuple[tuple[str, str], ...]
MOST_REQUIREMENTS = 50
"""Of a node affinity that is compared with what pools publish: who writes more must not hold up the
pods of others."""


@dataclass(frozen=True)
class PoolView:
    """Fields of a pool on which the choice for a pod depends; derived values are cached."""

    name: str
    schedule: ModeName
    priority: int = 100
    edition: Edition = DEFAULT_EDITION
    closed: Reason | None = None
    """Why the pool takes no pod at all; None where it may take one."""
    on_request: bool = False
    """Whether the pool takes only pods that ask for it."""
    namespace_selector: LabelSelector | None = field(default=None, hash=False)
    pod_selector: LabelSelector | None = field(default=None, hash=False)
    selects_mode: bool = False
    """Pods that are sent here select the mode's labels, not the pool's."""
    tolerations: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """Tolerations that the pool gives to its pods, as in a pod's spec."""
    node_labels: Known = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """Labels that `spec.nodes` requires of the pool's nodes."""
    published_keys: tuple[str, ...] = ()
    """Keys of the labels that its status publishes of its present nodes."""
    combinations: tuple[Mapping[str, str], ...] = field(default=(), hash=False)
    """Values of `published_keys` by node: each node has exactly one of these combinations."""
    is_open: bool = True
    """Nodes with other labels may be there, or be added."""
    nodes: int | None = None
    """Members, 0 also where all are blocked and have no memory. None until they are counted."""
    room: Room | None = None
    """Free memory of the pool; None while its capacity is not known."""
    observed_at: str = ""
    """Time of the last change of `room`, in ISO 8601; empty while it is not known."""

    def with_room(self, room: Room) -> "PoolView":
        """Return the view with other free memory, and with the derived values that it has."""
        view = object.__new__(PoolView)
        # No derived value depends on the room.
        view.__dict__.update(self.__dict__, room=room)
        return view

    def without_pending(self, units: int) -> "PoolView":
        """Return the view as if no pod that asks for `units` waited for a card here."""
        room = self.room
        if room is None:
            return self
        units = min(units, room.pending)
        return self.with_room(
            replace(room, pending=room.pending - units, requested=room.requested - units)
        )

    @property
    def mode(self) -> Mode:
        return get_mode(self.edition, self.schedule)

    @cached_property
    def offers(self) -> frozenset[str]:
        """GPU resources that its nodes offer; whole cards by whoever serves those."""
        whole = self.schedule is Schedule.DEFAULT
        return frozenset(
            {names.RESOURCE_WHOLE_GPU} if whole else (*self.mode.resources, *self.mode.also_used)
        )

    @cached_property
    def serves(self) -> frozenset[frozenset[str]]:
        """The sets of resources that a pod may ask for; core_mem refuses memory alone."""
        needed = self.offers & {names.RESOURCE_GPU_CORE}
        sizes = range(1, len(self.offers) + 1)
        asked = chain.from_iterable(combinations(self.offers, size) for size in sizes)
        return frozenset(each for each in map(frozenset, asked) if needed <= each)

    @cached_property
    def isolates(self) -> bool:
        """Whether containers are limited to their share of memory, by any means."""
        return self.isolates_by_kernel or self.schedule is Schedule.MPS

    @cached_property
    def isolates_by_kernel(self) -> bool:
        """Whether the mode isolates as `gpushare.io/isolation: required` wants it."""
        return self.mode.isolated

    @cached_property
    def mode_labels(self) -> Labels:
        return tuple(self.mode.labels.items())

    @cached_property
    def binding(self) -> Labels:
        """Node labels that a pod selects which is sent here."""
        return self.mode_labels if self.selects_mode else ((names.LABEL_POOL, self.name),)

    @cached_property
    def known(self) -> Known:
        """Known labels of all the pool's nodes, also of those that will be added."""
        ours = {names.LABEL_POOL: self.name, **self.mode.labels}
        if self.isolates_by_kernel:
            ours[names.LABEL_ISOLATION_VERIFIED] = names.VERIFIED
        return {**self.node_labels, **{key: (ours.get(key),) for key in FOLLOWING}}

    @cached_property
    def columns(self) -> Columns:
        """Known labels of the pool's present nodes."""
        columns: dict[str, dict[str | None, int]] = {key: {} for key in self.published_keys}
        for index, combination in enumerate(self.combinations):
            for key, column in columns.items():
                value = combination.get(key)
                column[value] = column.get(value, 0) | 1 << index
        return columns

    @cached_property
    def all_bits(self) -> int:
        """A bit for each of its combinations."""
        return (1 << len(self.combinations)) - 1

    def match(self, selection: NodeSelection) -> bool | None:
        """Tell whether one of its nodes satisfies `selection`; None: that is not known."""
        if selection is ANYWHERE:
            return True
        is_long = selection.terms is not None and selection.requirements > MOST_REQUIREMENTS
        if self.is_open or is_long:
            matches = selection.match(self.known)
            if matches is not None or is_long:
                return matches
        matching, possible = selection.find_matching(self.columns, self.known, self.all_bits)
        return True if matching else None if possible or self.is_open else False

    def weigh(self, preferences: Preferences) -> int:
        """Add up the weights of the preferences that one of its nodes is known to satisfy."""
        return sum(weight for weight, wanted in preferences if self.match(wanted))


def view_pool(raw: Mapping[str, Any]) -> PoolView | None:
    """Build the view of a pool from the API server's JSON; None if this version can't read it."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    # An older CRD may have stored anything there.
    nodes = status.get("nodes") or {} if isinstance(status, dict) else None
    if not (isinstance(nodes, dict) and isinstance(raw.get("spec") or {}, dict)):
        return None
    try:
        # The rollout is not read: admission goes on where windows are invalid.
        read = {key: value for key, value in (raw.get("spec") or {}).items() if key != "rollout"}
        spec = PoolSpec.model_validate(read)
        capacity = PoolCapacity.model_validate(c) if (c := status.get("capacity")) else None
        published = NodeLabels.model_validate(status.get("nodeLabels") or {})
    except ValidationError:
        return None
    if find_mode(spec.edition, spec.schedule) is None:
        return None
    # What is published is of the nodes that the former spec selected.
    is_behind = status.get("observedGeneration", 0) < metadata.get("generation", 0)
    # Labels of GPU feature discovery follow the mode (FOLLOWING_LABELS).
    is_behind |= spec.nvidia is not None and nodes.get("ready") != nodes.get("matched")
    is_blocked = nodes.get("blocked") == nodes.get("matched")
    return build_view(
        metadata["name"],
        spec,
        capacity,
        published,
        nodes=0 if is_blocked and capacity and not capacity.memory_total else nodes.get("matched"),
        is_deleting="deletionTimestamp" in metadata,
        is_behind=is_behind,
    )


def build_view(
    name: str,
    spec: PoolSpec,
    capacity: PoolCapacity | None,
    published: NodeLabels,
    *,
    nodes: int | None,
    is_deleting: bool = False,
    is_behind: bool = False,
) -> PoolView:
    """Build the view of a pool with this spec, capacity and labels of its `nodes`; `is_behind`
    tells that the labels may be of other nodes, or others soon."""
    closed, workloads = None, spec.workloads
    if is_deleting:
        closed = Reason.POOL_DELETING
    elif spec.reconcile is ReconcilePolicy.OBSERVE:
        # Its nodes don't carry its labels.
        closed = Reason.POOL_OBSERVES
    return PoolView(
        name=name,
        schedule=spec.schedule,
        priority=spec.priority,
        edition=spec.edition,
        closed=closed,
        on_request=workloads.selection is Selection.ON_REQUEST,
        namespace_selector=_unless_empty(workloads.namespace_selector),
        pod_selector=_unless_empty(workloads.pod_selector),
        selects_mode=workloads.binding is Binding.MODE,
        tolerations=tuple(
            toleration.model_dump(mode="json", by_alias=True, exclude_none=True)
            for toleration in workloads.tolerations
        ),
        node_labels=_known_labels(spec),
        published_keys=published.keys,
        combinations=tuple(each.labels for each in published.combinations),
        is_open=(
            is_behind
            or spec.nodes.scaling is Scaling.AUTOSCALED
            or not published.combinations
            or published.more > 0
        ),
        nodes=nodes,
        room=None if capacity is None else view_room(capacity),
        observed_at="" if capacity is None else capacity.observed_at.isoformat(),
    )


def _unless_empty(selector: LabelSelector) -> LabelSelector | None:
    return selector if selector.match_labels or selector.match_expressions else None


def _known_labels(spec: PoolSpec) -> Known:
    """Return the labels that all of the pool's nodes have by its selector; named ones need not."""
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


def view_room(capacity: PoolCapacity) -> Room:
    """View the free memory of a pool with this capacity."""
    # The sums are in GiB whatever the plugin counts in.
    unit = MIB_PER_GIB if capacity.unit == "MiB" else 1
    return Room(
        free_blocks=tuple(
            sorted(((block.size, block.cards) for block in capacity.free_blocks), reverse=True)
        ),
        free_pods=capacity.free_pods,
        pending=max(capacity.memory_requested - capacity.memory_allocated, 0) * unit,
        requested=capacity.memory_requested * unit,
        total=capacity.memory_total * unit,
        largest_card=capacity.largest_card,
        unit=capacity.unit,
    )
