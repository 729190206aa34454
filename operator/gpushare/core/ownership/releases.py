"""Keeps which nodes must still be released, and which pools wait for that."""

from collections import Counter


class Releases:
    """The nodes that must still be released, each with the pools that can't be deleted before."""

    def __init__(self) -> None:
        self._pools: dict[str, frozenset[str]] = {}
        self._counts: Counter[str] = Counter()

    def __contains__(self, node: str) -> bool:
        return node in self._pools

    def enter(self, node: str, pools: frozenset[str] = frozenset()) -> None:
        """Replace the pools that wait for the node; the cost does not depend on their number."""
        self._counts.subtract(self._pools.pop(node, ()))
        if pools:
            self._pools[node] = pools
            self._counts.update(pools)

    def count(self, pool: str) -> int:
        """Return how many nodes the pool waits for."""
        return self._counts[pool]

    def nodes_of(self, pool: str) -> list[str]:
        """Return the names of the nodes that the pool waits for, sorted."""
        return sorted(node for node, pools in self._pools.items() if pool in pools)
