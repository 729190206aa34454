"""What the page shows, as one document: that of `inspect --pools -o json`, and a little more."""

from collections.abc import Iterator
from typing import Any

from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.inspect.pools_view import describe_pools
from gpushare.cli.output.node_facts import describe_card
from gpushare.core.analysis.inspect.pools import OutsideNode, view_outside, view_pools

Json = dict[str, Any]
Key = tuple[str, str]
"""Of a node: its pool, or nothing where it is in none; and its name."""


def build_state(cluster: Cluster) -> Json:
    """The whole document; a cluster without pools' API has nodes all the same."""
    seen = observe_cluster(cluster)
    setup, unbound = seen.known.setup, seen.unbound
    view = view_pools(seen.snapshot, setup, unbound, seen.opted_out, cluster.taken_at)
    return {
        "installed": cluster.pools is not None,
        **describe_pools(view, seen.unreadable, cluster),
        "outside": [_describe_outside(node) for node in view_outside(seen.snapshot, view)],
    }


def _describe_outside(node: OutsideNode) -> Json:
    return {
        "name": node.name,
        "takesPods": node.takes_pods,
        "cordoned": node.cordoned,
        "cards": [describe_card(card) for card in node.cards],
    }


class Versions:
    """States one after the other, so that who has seen one is told only what is new since.

    A node costs nothing for as long as it stays the same: of 5,000 a page gets those that moved.
    """

    def __init__(self) -> None:
        self.version = 0
        """Of the state that was taken in last; 0 before the first."""
        self._state: Json = {}
        self._nodes: dict[Key, Json] = {}
        self._changed: dict[Key, int] = {}
        self._gone: dict[Key, int] = {}
        self._waiting_changed = 0

    def take(self, state: Json) -> None:
        """The state that holds from now on."""
        if state == self._state:
            return
        self.version += 1
        nodes = dict(_list_nodes(state))
        for key in self._nodes.keys() - nodes.keys():
            self._gone[key] = self.version
            del self._changed[key]
        for key, node in nodes.items():
            if self._nodes.get(key) != node:
                self._changed[key] = self.version
                self._gone.pop(key, None)
        if state["waiting"] != self._state.get("waiting"):
            self._waiting_changed = self.version
        self._state, self._nodes = state, nodes

    def tell(self, since: int | None) -> Json:
        """The state, or of it what is new since that version.

        Then of the nodes only those that changed are there, those that are `gone` are named by
        pool (under no name those that were in none), and `waiting` is null where it did not change.
        """
        if since is None or not 0 < since <= self.version:
            return self._state
        outside = [
            node for node in self._state["outside"] if self._is_new(("", node["name"]), since)
        ]
        gone: dict[str, list[str]] = {}
        for (pool, name), version in self._gone.items():
            if version > since:
                gone.setdefault(pool, []).append(name)
        return {
            **self._state,
            "pools": [self._tell_pool(pool, since) for pool in self._state["pools"]],
            "waiting": self._state["waiting"] if self._waiting_changed > since else None,
            "outside": outside,
            "gone": gone,
        }

    def _tell_pool(self, pool: Json, since: int) -> Json:
        nodes = [
            node for node in pool["nodes"] if self._is_new((pool["name"], node["name"]), since)
        ]
        return {**pool, "nodes": nodes}

    def _is_new(self, key: Key, since: int) -> bool:
        return self._changed[key] > since


def _list_nodes(state: Json) -> Iterator[tuple[Key, Json]]:
    for pool in state["pools"]:
        for node in pool["nodes"]:
            yield (pool["name"], node["name"]), node
    for node in state["outside"]:
        yield ("", node["name"]), node
