"""The nodes that must still be released, and for which pools."""

from collections import Counter


class Releases:
    """The pools that each node keeps from being released."""

    def __init__(self) -> None:
        self._pools: dict[str, frozenset[str]] = {}
        self._counts: Counter[str] = Counter()

    def __contains__(self, node: str) -> bool:
        return node in self._pools

    def enter(self, node: str, pools: frozenset[str] = frozenset()) -> None:
        """Replace the pools that the node holds; this costs the same at any size."""
        self._counts.subtract(self._pools.pop(node, ()))
        if pools:
            self._pools[node] = pools
            self._counts.update(pools)

    def count(self, pool: str) -> int:
        """Return how many nodes hold the pool."""
        return self._counts[pool]

    def nodes_of(self, pool: str) -> list[str]:
        """Return the names of the nodes that hold the pool, sorted."""
        return sorted(node for node, pools in self._pools.items() if pool in pools)
