"""Indexes pools by their membership, so that few of hundreds of pools are checked for one node."""

from collections import defaultdict
from collections.abc import Iterable

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool


class PoolIndex:
    """An index of pools by one label of their selector, and by the node names that they list."""

    def __init__(self, pools: Iterable[Pool] = ()):
        self._by_label: defaultdict[tuple[str, str], list[Pool]] = defaultdict(list)
        self._by_name: defaultdict[str, list[Pool]] = defaultdict(list)
        self._others: list[Pool] = []
        self.pools = tuple(pools)
        for pool in self.pools:
            nodes = pool.spec.nodes
            for name in nodes.named:
                self._by_name[name].append(pool)
            if nodes.selector is None:
                continue
            labels = nodes.selector.match_labels
            # One required label is enough as a key: a node that matches has all of them.
            (self._by_label[min(labels.items())] if labels else self._others).append(pool)

    def find_candidates(self, node: Node) -> list[Pool]:
        """Return all pools that may claim `node`, and some that don't, sorted by name."""
        found = [*self._others, *self._by_name.get(node.name, ())]
        for label in node.labels.items():
            found += self._by_label.get(label, ())
        return sorted({pool.name: pool for pool in found}.values(), key=lambda pool: pool.name)
