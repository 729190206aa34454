"""Searches the sizes of pools on given nodes for the split on which most of a queue runs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb

from gpushare import names
from gpushare.analysis.placement.cluster import find_members
from gpushare.analysis.placement.place import PodAsks, QueuedPod, encode_pod, place_pods
from gpushare.analysis.placement.split import roll_out
from gpushare.analysis.placement.what_if import Observed, list_waiting, queue_running
from gpushare.api.pool import Pool
from gpushare.api.selector import Nodes

MOST_SPLITS = 25_000
"""Splits that are all tried: those of 200 equal nodes over three pools are 20,301."""
BEST = 3
"""Splits that are shown."""
_HOSTNAME = "kubernetes.io/hostname"
_NAMED_AFTER_NODE = frozenset({_HOSTNAME, *names.NODE_LABELS})

Sizes = tuple[tuple[int, ...], ...]
"""The number of nodes in each pool, by group of equal nodes."""


@dataclass(frozen=True, slots=True, order=True)
class SplitScore:
    """How good a split is; the better one sorts first."""

    missed: int
    """Pods displaced less pods that run, of the queue and of those displaced."""
    displaced: int
    """Running pods that must go first: each is interrupted, even if it runs again."""
    changes: int
    """Nodes whose mode changes: each is out of service for a while."""
    less_largest_free: int
    """The largest free block of all pools, negative."""
    sizes: Sizes
    """Decides between splits that are equal otherwise."""


@dataclass(frozen=True, slots=True)
class FoundSplit:
    """A split with its score."""

    members: Mapping[str, str]
    """The pool of each searched node, by node."""
    score: SplitScore
    placed: int
    """Pods that run, of the queue and of those displaced."""
    displaced: int
    """Running pods that must go first."""

    def count(self, pool: str) -> int:
        """Count the nodes of a pool."""
        return sum(name == pool for name in self.members.values())


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best splits, and how they were found."""

    best: tuple[FoundSplit, ...]
    tried: int
    is_exact: bool
    """Whether all splits were tried."""


class SplitSearch:
    """The splits of some nodes over some pools, and what runs on each."""

    def __init__(
        self, seen: Observed, new: Sequence[QueuedPod], nodes: Collection[str], pools: Sequence[str]
    ) -> None:
        self._seen, self._pools = seen, tuple(pools)
        self._queue, self._asks = [*list_waiting(seen)[0], *new], PodAsks()
        present = find_members(seen.snapshot)
        self.others = {name: pool for name, pool in present.items() if name not in nodes}
        """The pool of each node that is not searched, by node."""
        self._running = queue_running(seen, seen.build(seen.snapshot, present))
        groups: dict[tuple[object, ...], list[str]] = {}
        for name in sorted(nodes):
            groups.setdefault(self._find_shape(name, present), []).append(name)
        self.groups = tuple(tuple(group) for group in groups.values())
        """Nodes that are equal for every pod and every pool."""

    def run(self) -> SearchResult:
        """Find the best splits: all are tried where they are few enough, else neighbours of the
        best so far."""
        parts = len(self._pools)
        count = 1
        for group in self.groups:
            count *= comb(len(group) + parts - 1, parts - 1)
        if count <= MOST_SPLITS:
            found = [self.judge(self.assign(sizes)) for sizes in self.list_sizes()]
            return SearchResult(tuple(sorted(found, key=_by_score)[:BEST]), count, is_exact=True)
        return self._climb()

    def list_sizes(self) -> Iterator[Sizes]:
        """List all splits by their sizes."""
        parts = len(self._pools)
        return product(*(tuple(_compose(len(group), parts)) for group in self.groups))

    def assign(self, sizes: Sizes) -> dict[str, str]:
        """Assign nodes to pools so that these sizes result."""
        members: dict[str, str] = {}
        for group, counts in zip(self.groups, sizes, strict=True):
            left = iter(group)
            for pool, count in zip(self._pools, counts, strict=True):
                members |= {next(left): pool for _ in range(count)}
        return members

    def judge(self, members: Mapping[str, str]) -> FoundSplit:
        """Place the queue on the split in which the searched nodes are in these pools."""
        everyone = {**self.others, **members}
        split = roll_out(self._seen.snapshot, everyone, self._seen.setup.memory_unit)
        moved = [pod for uid, pod in self._running.items() if uid in split.displaced]
        cluster = self._seen.build(split.snapshot, everyone)
        result = place_pods(cluster, [*moved, *self._queue], asks=self._asks)
        free = max((pool.capacity.largest_free_block for pool in result.pools), default=0)
        score = SplitScore(
            len(moved) - result.placed,
            len(moved),
            split.changes,
            -free,
            tuple(
                tuple(sum(members[name] == pool for name in group) for pool in self._pools)
                for group in self.groups
            ),
        )
        return FoundSplit(members, score, result.placed, len(moved))

    def _climb(self) -> SearchResult:
        """Move one node at a time to another pool for as long as that is better."""
        known: dict[Sizes, FoundSplit] = {}
        parts = len(self._pools)

        def try_sizes(sizes: Sizes) -> FoundSplit:
            if sizes not in known:
                known[sizes] = self.judge(self.assign(sizes))
            return known[sizes]

        for first in range(parts):
            sizes: Sizes = tuple(
                tuple(len(group) * (part == first) for part in range(parts))
                for group in self.groups
            )
            best = try_sizes(sizes)
            while True:
                nearest = min(map(try_sizes, _list_neighbours(best.score.sizes)), key=_by_score)
                if not nearest.score < best.score:
                    break
                best = nearest
        found = sorted(known.values(), key=_by_score)[:BEST]
        return SearchResult(tuple(found), len(known), is_exact=False)

    def _find_shape(self, name: str, present: Mapping[str, str]) -> tuple[object, ...]:
        """Find everything by which two nodes may differ for a pod or a pool."""
        snapshot = self._seen.snapshot
        node, shapes = snapshot.nodes[name], self._seen.shapes
        labels = ((k, v) for k, v in node.labels.items() if k not in _NAMED_AFTER_NODE)
        pods = (
            (encode_pod(shapes[pod.uid]), tuple(pod.cards.items()))
            for pod in snapshot.pods.get(name, ())
            if pod.uid in shapes and pod.requests
        )
        return (
            present.get(name),
            frozenset(labels),
            tuple(sorted((key, node.labels.get(key, "")) for key in names.MODE_LABELS)),
            tuple(sorted(node.allocatable.items())),
            (node.host, node.taints, node.ready, node.unschedulable, node.gpu_count),
            frozenset(snapshot.unhealthy_cards.get(name, ())),
            tuple(sorted(pods)),
        )


def name_nodes(pool: Pool, members: Mapping[str, str]) -> Pool:
    """Return `pool` with the nodes that `members` says, by name, without selector and size."""
    own = tuple(sorted(name for name, owner in members.items() if owner == pool.name))
    old = pool.spec.nodes
    nodes = Nodes(names=own, cards=old.cards, scaling=old.scaling)
    spec = pool.spec.model_copy(update={"nodes": nodes, "demand": None})
    return pool.model_copy(update={"spec": spec})


def _by_score(split: FoundSplit) -> SplitScore:
    return split.score


def _compose(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """List all ways to divide `total` nodes over so many pools."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _compose(total - first, parts - 1):
            yield (first, *rest)


def _list_neighbours(sizes: Sizes) -> Iterator[Sizes]:
    """List the splits that differ by one node in another pool."""
    for index, counts in enumerate(sizes):
        for source, target in product(range(len(counts)), repeat=2):
            if source != target and counts[source]:
                moved = list(counts)
                moved[source] -= 1
                moved[target] += 1
                yield (*sizes[:index], tuple(moved), *sizes[index + 1 :])
