"""What would become of nodes if pools were there that are not: the planner's own word.

One pass of it is not enough: what it does to a node once the first labels and records are written
is decided only then. So its quiet writes, which touch neither service nor plugin, are carried out
in memory, and it is asked again until it has none left.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpushare import names
from gpushare.api.node import Node
from gpushare.core.actions import ApplyNode, NodePlan
from gpushare.core.plan import Planner
from gpushare.core.setup import Setup, guess_unit
from gpushare.core.world import World

_PASSES = 5
"""More than a node at rest needs: labels and records, and what is noted after that."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would become of one node."""

    node: str
    pool: str
    plan: NodePlan
    """Where it would stand then, and why."""
    labels: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """Labels that would be others, each with what it is and would be; None is absent."""
    restarts: bool = False
    """Its device plugin would be restarted."""
    reboots: bool = False

    @property
    def changes_mode(self) -> bool:
        """It needs more than labels: a restart, a teardown, or a person."""
        return self.plan.kind is not None or self.plan.action is not None

    @property
    def changed_labels(self) -> dict[str, tuple[str | None, str | None]]:
        """`labels`, but for the pool's own that was not there: that one is what adoption is."""
        return {
            key: (of, to)
            for key, (of, to) in self.labels.items()
            if key != names.LABEL_POOL or of is not None
        }

    @property
    def is_empty(self) -> bool:
        """Nothing would happen to it but that it becomes a member."""
        return not (self.changes_mode or self.changed_labels)


def foresee(world: World, pools: Collection[str], now: datetime) -> tuple[Foreseen, ...]:
    """What would become of the members of these `pools` of `world`, by node."""
    planner = Setup(guess_unit(world)).build_planner()
    nodes, changed = dict(world.nodes), None
    for _ in range(_PASSES):
        plan = planner.update(replace(world, nodes=nodes), changed, now)
        changed = set()
        for decision in plan.decisions:
            action = decision.plan.action
            if (
                decision.pool in pools
                and isinstance(action, ApplyNode)
                and _is_quiet(action, nodes)
            ):
                nodes[action.node] = _apply(action, nodes[action.node])
                changed.add(action.node)
        if not changed:
            break
    plans = {node: (pool, p) for pool in sorted(pools) for node, p in _members(planner, pool)}
    return tuple(
        _describe(pool, plan, world.nodes[node], nodes[node])
        for node, (pool, plan) in sorted(plans.items())
    )


def _members(planner: Planner, pool: str) -> list[tuple[str, NodePlan]]:
    book = planner.books[pool]
    return [(node, plan) for node, plan in book.plans.items() if node in book.capacities]


def _is_quiet(action: ApplyNode, nodes: Mapping[str, Node]) -> bool:
    """A change begins with its cordon; all else leaves the node in service."""
    return action.cordon is nodes[action.node].owns_cordon


def _apply(action: ApplyNode, node: Node) -> Node:
    """The node as the API server would have it after a server-side apply with force."""
    dropped = (names.NODE_LABELS & node.owned) - action.labels.keys()
    kept = {key: value for key, value in node.labels.items() if key not in dropped}
    shared = {k: m for k, m in node.managers.items() if action.labels.get(k) == node.labels.get(k)}
    return replace(
        node,
        labels={**kept, **action.labels},
        annotations=dict(action.annotations),
        owned=frozenset(action.labels) | frozenset(action.annotations),
        managers=shared,
    )


def _describe(pool: str, plan: NodePlan, before: Node, after: Node) -> Foreseen:
    keys = {k for k in names.NODE_LABELS if before.labels.get(k) != after.labels.get(k)}
    return Foreseen(
        node=before.name,
        pool=pool,
        plan=plan,
        labels={key: (before.labels.get(key), after.labels.get(key)) for key in sorted(keys)},
        restarts=plan.kind is not None and plan.kind.restarts_plugin,
        reboots=plan.kind is not None and plan.kind.reboots,
    )
