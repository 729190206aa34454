"""What the API server has of each node, at one moment."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.isolation_oracle import Span
from tests.kit.bench import NODES, POOLS, Bench

Json = dict[str, Any]

_ALL_PODS = "/api/v1/pods"


@dataclass(frozen=True, slots=True)
class NodeView:
    node: Json
    pods: tuple[Json, ...]
    is_one_moment: bool
    """The node was exactly so when the pods were read."""

    @property
    def version(self) -> tuple[str, ...]:
        """Another one as soon as anything here is another."""
        return tuple(item["metadata"]["resourceVersion"] for item in (self.node, *self.pods))


@dataclass
class Sight:
    """Looks at everything, as often as it is asked to.

    Pods are read between two readings of the nodes: a node that has the same version in both was
    the same all the time.
    """

    bench: Bench
    nodes: dict[str, NodeView] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    """Those of the namespace `default`, by name."""
    pools: dict[str, Json] = field(default_factory=dict)
    _versions: dict[str, str] = field(default_factory=dict)

    span: Span = field(default_factory=lambda: Span(0.0))
    """Of the last look."""

    def look(self) -> None:
        begin = time.monotonic()
        by_node: defaultdict[str, list[Json]] = defaultdict(list)
        self.pods = {}
        for pod in self.bench.call("GET", _ALL_PODS)["items"]:
            by_node[pod["spec"].get("nodeName", "")].append(pod)
            if pod["metadata"]["namespace"] == "default":
                self.pods[pod["metadata"]["name"]] = pod
        nodes = {item["metadata"]["name"]: item for item in self.bench.call("GET", NODES)["items"]}
        versions = {name: node["metadata"]["resourceVersion"] for name, node in nodes.items()}
        self.nodes = {
            name: NodeView(node, tuple(by_node[name]), self._versions.get(name) == versions[name])
            for name, node in nodes.items()
        }
        self._versions = versions
        self.span = Span(begin, time.monotonic())
        self.pools = {
            item["metadata"]["name"]: item for item in self.bench.call("GET", POOLS)["items"]
        }
