"""Reports the nodes, the containers and the GPU memory of each pool."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpushare.api.pool import Pool
from gpushare.core.capacity.memory_sums import Memory
from gpushare.core.capacity.node_capacity import UNIT_BYTES
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.rollout.window_state import WindowState
from gpushare.core.sizing.moves import IdleNodeMove
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.status.unschedulable_pods import REASONS, UnschedulablePod
from gpushare.names import Reason
from gpushare.observe.metrics.family import Family
from gpushare.observe.metrics.figures import Figures, PoolFigures


@dataclass(frozen=True, slots=True)
class Sight:
    """The active controller's state at a scrape: views, not copies, so that a deleted pool leaves
    no series behind."""

    pools: Collection[Pool] = ()
    plans_by_pool: Mapping[str, PoolPlans] = field(default_factory=dict)
    """States by the pool's name, of pools that a pass has reconciled."""
    unschedulable: Collection[UnschedulablePod] = ()
    """Pods without a node, with the reason."""
    figures: Figures = field(default_factory=Figures)
    """Figures of the active controller; empty in one that stands by."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))


class _PoolView(NamedTuple):
    pool: Pool
    pool_plans: PoolPlans
    figures: PoolFigures
    memory: Memory
    unit_bytes: int

    @property
    def windows(self) -> WindowState | None:
        return self.pool_plans.windows

    @property
    def move(self) -> IdleNodeMove | None:
        return self.pool_plans.move


_Measure = Callable[[_PoolView], Mapping[tuple[str, ...], float]]
"""Returns the values of a pool by the values of the labels after `pool`."""


def _measure_next_start(of: _PoolView) -> dict[tuple[str, ...], float]:
    if of.windows is None or of.windows.refusal is None or of.windows.opening is None:
        return {}
    return {(): of.windows.opening.start.timestamp()}


def _of_pool(name: str, text: str, measure: _Measure, *labels: str) -> tuple[Family, _Measure]:
    return Family(name, text, ("pool", *labels)), measure


_MEASURES = (
    _of_pool(
        "pool_info",
        "1 for each pool, with its mode. The placement is empty if the pool sets none.",
        lambda of: {
            (of.pool.spec.edition, str(of.pool.spec.schedule), of.pool.spec.placement or ""): 1
        },
        *("edition", "schedule", "placement"),
    ),
    _of_pool(
        "pool_nodes",
        "Nodes that a pool claims, by state. A node that two pools claim is counted in both.",
        lambda of: {(state,): of.pool_plans.counts[state] for state in NodeState},
        "state",
    ),
    _of_pool(
        "pool_conflicting_nodes",
        "Members of a pool on which another field manager keeps changing a label.",
        lambda of: {(): len(of.pool_plans.conflicting)},
    ),
    _of_pool(
        "pool_contested",
        "1 while writers keep returning a pool's spec to earlier values, so that nothing begins, "
        "else 0.",
        lambda of: {(): of.pool_plans.contest is not None},
    ),
    _of_pool(
        "pool_competing_nodes",
        "Members of a pool whose cards two stacks give out, each all of them.",
        lambda of: {
            (): sum(
                plan.reason is Reason.COMPETING_STACKS for plan in of.pool_plans.unready.values()
            )
        },
    ),
    _of_pool(
        "pool_containers",
        "Containers that share a pool's cards: isolated, shared (not isolated), or unknown.",
        lambda of: {
            ("isolated",): of.figures.isolated,
            ("shared",): of.figures.containers - of.figures.isolated - of.figures.unknown,
            ("unknown",): of.figures.unknown,
        },
        "isolation",
    ),
    _of_pool(
        "pool_stale_containers",
        "Containers whose isolation differs from their node's mode.",
        lambda of: {(): of.figures.stale},
    ),
    _of_pool(
        "pool_opted_out_containers",
        "Containers that turn off isolation, on nodes whose mode isolates.",
        lambda of: {(): of.figures.opted_out},
    ),
    _of_pool(
        "pool_window_open",
        "1 if a pool's changes may begin by its windows and freezes, else 0. Only of pools with "
        "windows, frozen or contested.",
        lambda of: {(): of.windows.refusal is None} if of.windows is not None else {},
    ),
    _of_pool(
        "pool_window_next_start_timestamp_seconds",
        "When a pool's next window starts, while none is open that is long enough.",
        _measure_next_start,
    ),
    _of_pool(
        "pool_recommended_moves",
        "1 while an idle node of the pool `source` would move to a pool, and the move waits.",
        lambda of: {(of.move.source,): 1} if of.move is not None and of.move.waits_for else {},
        "source",
    ),
    _of_pool("pool_gpus", "Cards of a pool.", lambda of: {(): of.memory.gpus}),
    _of_pool(
        "pool_memory_bytes",
        "GPU memory that a pool's nodes offer to share.",
        lambda of: {(): of.memory.total * of.unit_bytes},
    ),
    _of_pool(
        "pool_memory_allocated_bytes",
        "GPU memory of a pool that is allocated, by the GPU scheduler's ledger.",
        lambda of: {(): of.memory.allocated * of.unit_bytes},
    ),
    _of_pool(
        "pool_memory_requested_bytes",
        "GPU memory requested by pods on a pool's nodes, and by waiting pods that one could hold.",
        lambda of: {(): of.memory.requested * of.unit_bytes},
    ),
    _of_pool(
        "pool_memory_largest_free_block_bytes",
        "Free GPU memory of the emptiest card on a node that accepts pods.",
        lambda of: {(): of.memory.largest_free * of.unit_bytes},
    ),
    _of_pool(
        "pool_memory_stranded_bytes",
        "Free GPU memory on cards that have less free than the pool's median request.",
        lambda of: {(): of.memory.stranded * of.unit_bytes},
    ),
)
_UNSCHEDULABLE = Family(
    "unschedulable_pods",
    "GPU pods without a pool or a node, by the pool that they are for. Each is counted within 5 "
    "seconds.",
    ("pool", "reason"),
)


class PoolCollector(Collector):
    """A few dozen series for each pool, whatever its size."""

    families = (*(family for family, _ in _MEASURES), _UNSCHEDULABLE)

    def __init__(self, look: Callable[[], Sight]) -> None:
        self._look = look

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics, one for each family."""
        yield from _measure(self._look())

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics without series; the registry checks their names for duplicates."""
        yield from _measure(Sight())


def _measure(sight: Sight) -> Iterator[GaugeMetricFamily]:
    pools = sorted(sight.pools, key=lambda pool: pool.name)
    views = [_view(pool, sight) for pool in pools if pool.name in sight.plans_by_pool]
    for family, measure in _MEASURES:
        yield family.fill(
            {(v.pool.name, *rest): value for v in views for rest, value in measure(v).items()}
        )
    yield _UNSCHEDULABLE.fill(_count_unschedulable(sight))


def _view(pool: Pool, sight: Sight) -> _PoolView:
    figures = sight.figures.pools.get(pool.name, PoolFigures())
    memory = figures.memory.sum_up(sight.now)
    return _PoolView(pool, sight.plans_by_pool[pool.name], figures, memory, UNIT_BYTES[memory.unit])


def _count_unschedulable(sight: Sight) -> Counter[tuple[str, ...]]:
    """Count pods by pool and reason; without a pool each reason has a value, also 0."""
    counts: Counter[tuple[str, ...]] = Counter()
    if sight.pools:
        counts.update({("", reason): 0 for reason in REASONS})
    counts.update((pod.pool, pod.reason) for pod in sight.unschedulable)
    return counts
