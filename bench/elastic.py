"""``python -m bench.elastic``: how long pods wait in pools that exchange nodes, beside fixed ones.

A day of pods is simulated minute by minute on nodes of two pools: with each fixed number of nodes,
and with nodes that move by the rules of `core/sizing/moves.py`. The best fixed number is the one
that turns out best for the very day: nobody could have known it.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from bench.core.figure import Figure, report_figures
from bench.core.session import run, say
from bench.core.traces import CARD_UNITS, CARDS, DAYS, MINUTES, NODES, SERVE, TRAIN, TracePod
from gpushare.api.rollout import DemandMode, DemandPolicy
from gpushare.api.selector import PoolSize
from gpushare.core.sizing.assignment import ClaimedNode
from gpushare.core.sizing.moves import ElasticPool, WaitingPods, find_moves

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_MINUTES_OF_CHANGE = 1
_SEEDS = range(1, 10)
_POOLS = (TRAIN, SERVE)
_DEMAND = DemandPolicy(mode=DemandMode.AUTOMATIC, pending_for="2m")
_BEST = "times the best fixed number"
FIGURES = (
    Figure("day_and_night_ratio", _BEST, limit=0.7),
    Figure("day_and_night_moves", "of one node in a day", limit=6, form=".0f"),
    # All nodes are full, the worst case: a node comes back only when it is idle, which is rare.
    Figure("constant_mix_ratio", _BEST, limit=1.25),
    Figure("constant_mix_moves", "of one node in a day", limit=6, form=".0f"),
    Figure("alternation_ratio", _BEST, limit=1.03),
    Figure("alternation_moves", "of one node in a day", limit=6, form=".0f"),
)


@dataclass
class _Node:
    name: str
    pool: str
    free: list[int] = field(default_factory=lambda: [CARD_UNITS] * CARDS)
    pods: list[tuple[int, int, int]] = field(default_factory=list)
    """End, card and units of each pod."""
    idle_since: int = 0
    ready_at: int = 0

    def end(self, minute: int) -> None:
        """Remove the pods that have ended."""
        left = [pod for pod in self.pods if pod[0] > minute]
        if len(left) == len(self.pods):
            return
        for end, card, units in self.pods:
            self.free[card] += units * (end <= minute)
        self.pods = left
        if not left:
            self.idle_since = minute

    def place(self, pod: TracePod, minute: int) -> None:
        """Place a pod on the card with the least room for it."""
        _, card = min((free, card) for card, free in enumerate(self.free) if free >= pod.units)
        self.free[card] -= pod.units
        self.pods.append((minute + pod.minutes, card, pod.units))


@dataclass(frozen=True)
class Day:
    """What became of a day's pods."""

    waited: int
    """Minutes that all pods waited, added up."""
    moves: int = 0
    most_moves: int = 0
    """Moves of the node that moved most."""


def play(pods: Sequence[TracePod], trains: int, *, demand: DemandPolicy | None = None) -> Day:
    """Play a day, at whose begin `trains` nodes are in the pool that trains."""
    nodes = [_Node(f"n{n:02}", TRAIN if n < trains else SERVE) for n in range(NODES)]
    coming, waited, moves = deque(pods), 0, Counter[str]()
    waiting: list[TracePod] = []
    for minute in range(MINUTES):
        for node in nodes:
            node.end(minute)
        while coming and coming[0].arrives <= minute:
            waiting.append(coming.popleft())
        waiting = _place(waiting, nodes, minute)
        waited += len(waiting)
        if demand is not None and waiting:
            for node, target in _find_moves(nodes, waiting, demand, minute):
                node.pool, node.ready_at = target, minute + _MINUTES_OF_CHANGE
                node.idle_since = node.ready_at
                moves[node.name] += 1
    return Day(waited, moves.total(), max(moves.values(), default=0))


def _place(waiting: Iterable[TracePod], nodes: Iterable[_Node], minute: int) -> list[TracePod]:
    """Place the pods that fit, each on the fullest node; return the others."""
    left: list[TracePod] = []
    full: set[tuple[str, int]] = set()
    ready = [node for node in nodes if node.ready_at <= minute]
    for pod in waiting:
        if (pod.pool, pod.units) in full:
            left.append(pod)
            continue
        own = (node for node in ready if node.pool == pod.pool and max(node.free) >= pod.units)
        if (node := min(own, key=lambda node: sum(node.free), default=None)) is not None:
            node.place(pod, minute)
        else:
            full.add((pod.pool, pod.units))
            left.append(pod)
    return left


def _find_moves(
    nodes: list[_Node], waiting: list[TracePod], demand: DemandPolicy, minute: int
) -> list[tuple[_Node, str]]:
    now, by_name = _at(minute), {node.name: node for node in nodes}
    pools = []
    for name in _POOLS:
        kinds: dict[int, list[TracePod]] = {}
        for pod in waiting:
            if pod.pool == name:
                kinds.setdefault(pod.units, []).append(pod)
        found = tuple(
            WaitingPods(bytes([units]), "a/pod", _at(min(p.arrives for p in alike)), len(alike))
            for units, alike in sorted(kinds.items())
        )
        pools.append(ElasticPool(name, PoolSize(min=1), demand, found))
    seen = [
        ClaimedNode(
            node.name,
            node.pool,
            frozenset(_POOLS),
            idle_since=None if node.pods else _at(node.idle_since),
            may_move=node.ready_at <= minute,
            is_coming=node.ready_at > minute,
        )
        for node in nodes
    ]
    moves, _ = find_moves(pools, seen, lambda *_: True, now)
    return [(by_name[move.node], move.target) for move in moves if not move.waits_for]


def _at(minute: int) -> datetime:
    return _BEGIN + timedelta(minutes=minute)


def bench() -> None:
    """Play all days, print a table, and fail where elastic pools are not as good as is promised."""
    values: dict[str, float] = {}
    for name, draw in DAYS.items():
        fixed = elastic = moves = most = 0
        for seed in _SEEDS:
            pods = draw(Random(seed))
            best = min(
                (play(pods, trains) for trains in range(1, NODES)), key=lambda day: day.waited
            )
            day = play(pods, NODES // 2, demand=_DEMAND)
            fixed, elastic = fixed + best.waited, elastic + day.waited
            moves, most = moves + day.moves, max(most, day.most_moves)
        ratio = elastic / fixed if fixed else float(elastic > 0)
        say(f"{name}: fixed {fixed}, elastic {elastic}, {moves} moves, {most} of one node")
        key = name.replace(" ", "_")
        values |= {f"{key}_ratio": ratio, f"{key}_moves": most}
    report_figures("elastic", FIGURES, values)


if __name__ == "__main__":
    run(bench)
