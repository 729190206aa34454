"""Disturbances of untidy clusters: machines of any kind that return under their names, and writers
that flip, rename themselves, prune, or maintain nodes."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from gpushare import names
from gpushare.api.k8s.pod import parse_pod
from gpushare.api.pool import Edition
from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories import simulated_kubelets
from tests.kit.histories.disturbances import LABELS, MODES, POOLS, SCHEDULES, Disturbances
from tests.kit.histories.maintenance import is_maintained
from tests.kit.histories.turns import read_phase
from tests.kit.histories.wild.invariants import WildInvariantChecker
from tests.kit.histories.wild.machines import generate_machine
from tests.kit.values.manifests import build_pod

NODES = tuple(f"w{number}" for number in range(1, 8))
_PRUNED = sorted((names.NODE_LABELS - names.MODE_LABELS) | names.NODE_ANNOTATIONS)
_UNREQUESTED: tuple[Mapping[str, Any], ...] = (
    {"env": {"NVIDIA_VISIBLE_DEVICES": "all"}},
    {"runtimeClassName": "nvidia"},
    {"volumes": [{"name": "card", "hostPath": {"path": "/dev/nvidia0"}}]},
)
"""Fields that give a pod cards without a request."""
_OWNERS = ("", "ReplicaSet", "Job", "RayCluster", "DaemonSet")


class WildDisturbances(Disturbances):
    """A cluster of machines of all kinds, from one random generator."""

    checker: WildInvariantChecker

    def __init__(self) -> None:
        super().__init__()
        self.chance = Random()
        self.checker = WildInvariantChecker()

    def begin_wild(self, seed: object, editions: Sequence[Edition]) -> None:
        """Create nodes in two groups, a pool on the first, and in some cases a competing one."""
        chance = self.chance = Random(str(seed))
        self.cluster = sim.Cluster(
            edition=chance.choice(editions),
            returning=timedelta(seconds=chance.choice((1, 5, 15))),
            reporting=timedelta(seconds=chance.choice((1, 3, 9))),
            working=timedelta(seconds=chance.choice((5, 100))),
            may_evict=chance.random() < 0.7,
            may_tear_down=chance.random() < 0.7,
        )
        self.restart_operator()
        for node in NODES:
            self.add_machine(node)
        self.cluster = simulated_kubelets.elapse(self.cluster, 60)
        self.put_pool("training", **self.draw_spec(), nodes=self.draw_nodes())
        if chance.random() < 0.5:
            spec = self.draw_spec() | {"priority": chance.choice((100, 200))}
            self.put_pool("inference", **spec, nodes=self.draw_nodes())

    def draw_spec(self) -> dict[str, Any]:
        chance = self.chance
        rollout = {
            "max_unavailable": chance.choice((1, 2, "50%")),
            "canary": chance.choice((0, 1)),
            "ready_timeout_seconds": chance.choice((None, 30)),
            "on_failure": chance.choice(("Halt", "Rollback")),
            "workloads": chance.choice(("Wait", "CordonAndWait", "Evict")),
            "approval": chance.choice((*["Automatic"] * 5, "Manual")),
        }
        return {"schedule": chance.choice(SCHEDULES), "rollout": rollout}

    def draw_nodes(self) -> dict[str, Any]:
        """Draw a selector by the label, or in few cases by names."""
        chance = self.chance
        groups = chance.choice((("a",), ("a",), ("b",), ("a", "b")))
        selector = {"match_expressions": [{"key": "group", "operator": "In", "values": groups}]}
        named = chance.sample(NODES, 2) if chance.random() < 0.1 else []
        return {"selector": selector, "names": named}

    # Machines.

    def add_machine(self, node: str) -> None:
        """Add a machine of any kind; only machines with cards may have a mode's label."""
        if node in self.cluster.nodes:
            return
        machine = generate_machine(self.chance)
        is_labelled = machine.cards > 0 and self.chance.random() < 0.5
        mode = self.chance.choice(MODES) if is_labelled else "none"
        labels = {"group": self.chance.choice("aab"), **LABELS[self.cluster.edition, mode]}
        self.cluster = sim.add_node(self.cluster, node, labels, machine)

    def recreate(self, node: str) -> None:
        """Replace the Node by one of the same name, for the same machine or another one."""
        known = self.cluster.nodes.get(node)
        self.remove_node(node)
        if known is None or self.chance.random() < 0.3:
            self.add_machine(node)
            return
        labels = {key: v for key, v in known.labels.items() if key not in names.NODE_LABELS}
        self.cluster = sim.add_node(self.cluster, node, labels, known.machine)

    # Workloads.

    def bind_any(self, node: str) -> None:
        """Bind a pod of any owner, with a request for a resource of the node, or without one."""
        known = self.cluster.nodes.get(node)
        if known is None:
            return
        chance, name = self.chance, f"any-{self._next()}"
        raw = build_pod(name, gib=None, owner=chance.choice(_OWNERS), nodeName=node)
        if known.allocatable and chance.random() < 0.6:
            limits = {min(known.allocatable): "1"}
            raw["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
        else:
            raw = build_pod(name, gib=None, nodeName=node, **chance.choice(_UNREQUESTED))
        raw["metadata"] |= {"namespace": "default", "uid": f"uid-of-{name}"}
        pod = parse_pod(raw, plugin_namespaces=(names.PLUGIN_NAMESPACE,))
        if pod is not None:
            self.cluster = sim.bind_pod(self.cluster, pod)

    # Writers.

    def prune(self, node: str) -> None:
        """Remove a label as another manager, with a new name each time."""
        if node in self.cluster.nodes:
            manager = f"pruner-{self._next()}"
            # With the records goes what tells of the changes of late.
            self.checker.note_request({self.cluster.nodes[node].uid})
            for key in self.chance.sample(_PRUNED, self.chance.choice((1, 2))):
                self.cluster = sim.write_node(self.cluster, node, key, None, manager)

    def relabel_renamed(self, node: str) -> None:
        """Label the node with a mode, as a manager with a new name each time."""
        self.label_by_hand(node, self.chance.choice(MODES), f"autoscaler-{self._next()}")

    def flip(self, _: str) -> None:
        """Write a pool alternately as two applications."""
        name, times = self.chance.choice(POOLS), self.chance.choice((2, 6, 12))
        key, values = self.chance.choice(self._list_flips())
        rest = self.chance.choice((1, 5, 12, 60))
        for turn in range(times):
            if (pool := self.cluster.pools.get(name)) is None or pool.deleting:
                return
            self.put_pool(name, **{key: values[turn % len(values)]})
            self.work(5, rest, is_slow=False)

    def _list_flips(self) -> list[tuple[str, list[Any]]]:
        modes = self.chance.sample(SCHEDULES, self.chance.choice((2, 2, 3)))
        return [
            *[("schedule", modes)] * 4,
            ("priority", [50, 150, 250]),
            ("nodes", [self.draw_nodes() for _ in range(3)]),
        ]

    def rewrite(self, _: str) -> None:
        """Write ever new values to pools, or delete them."""
        chance, rest = self.chance, self.chance.choice((5, 12))
        for turn in range(chance.choice((4, 12))):
            name = chance.choice(POOLS)
            spec = chance.choice(
                (
                    {"schedule": chance.choice(SCHEDULES)},
                    {"priority": chance.randrange(1, 300)},
                    {"nodes": self.draw_nodes() | {"exclude": [f"gone-{turn}"]}},
                    {"reconcile": chance.choice(("Enforce", "Enforce", "Paused", "Observe"))},
                    {"deletion_policy": chance.choice(("Retain", "WholeCard", "Restore"))},
                )
            )
            self.put_pool(name, **spec)
            if chance.random() < 0.1:
                self.delete_pool(name)
            self.work(5, rest, is_slow=False)

    @abstractmethod
    def work(self, rounds: int, seconds: float, is_slow: bool) -> None:
        """Run the operator for a while."""

    # Another controller.

    def maintain(self, node: str) -> None:
        """Begin or end another controller's maintenance of the node."""
        if node in self.cluster.nodes and is_maintained(self.cluster.nodes[node]):
            self.end_maintenance(node, self.chance.random() < 0.3, self.chance.random() < 0.5)
        else:
            self.begin_maintenance(node)

    # People.

    def retry_pool(self, name: str) -> None:
        super().retry_pool(name)
        self.checker.note_request()

    def retry_node(self, node: str) -> None:
        super().retry_node(node)
        self.checker.note_request()

    def edit(self, _: str) -> None:
        """Change a pool's spec, in some cases its nodes."""
        name = self.chance.choice(POOLS)
        more = {"nodes": self.draw_nodes()} if self.chance.random() < 0.5 else {}
        self.put_pool(name, **self.draw_spec(), **more)

    def mend(self) -> None:
        """Remove all obstacles; also remove machines that were wrongly declared to have cards, and
        replace unhealthy cards: a node that joined with one has never shown its number of cards."""
        for name, node in sorted(self.cluster.nodes.items()):
            if node.machine.unhealthy and read_phase(self.cluster, name) == "Failed":
                mended = replace(node.machine, unhealthy=0)
                self.cluster = sim.put_node(self.cluster, replace(node, machine=mended))
            if self.checker.is_asserted(node) and not node.machine.serves_cards:
                self.remove_node(name)
        super().mend()


WILD_EVENTS: Mapping[str, Callable[[WildDisturbances, str], None]] = {
    "recreated": lambda history, node: history.recreate(node),
    "removed": lambda history, node: history.remove_node(node),
    "added": lambda history, node: history.add_machine(node),
    "pruned": lambda history, node: history.prune(node),
    "labelled by who renames himself": lambda history, node: history.relabel_renamed(node),
    "used by anybody": lambda history, node: history.bind_any(node),
    "rewritten": lambda history, node: history.rewrite(node),
    "flipped": lambda history, node: history.flip(node),
    "maintained by another": lambda history, node: history.maintain(node),
    "moved": lambda history, node: history.move_node(node, history.chance.choice("ab")),
    "edited": lambda history, node: history.edit(node),
    "pool deleted": lambda history, _: history.delete_pool(history.chance.choice(POOLS)),
}
