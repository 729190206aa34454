"""What happens on clusters that nobody tidied up: machines of any kind, which come back under
their names, and writers that flip, rename themselves, prune, or maintain nodes themselves."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from gpushare import names
from gpushare.api.pool import Edition
from tests.kit.histories import simulated_cluster as sim
from tests.kit.histories import simulated_kubelets
from tests.kit.histories.disturbances import LABELS, MODES, POOLS, SCHEDULES, Disturbances
from tests.kit.histories.field_ownership import CORDON
from tests.kit.histories.wild.invariants import (
    DRIVER_UPGRADE,
    UPGRADE_DONE,
    WildInvariantChecker,
    is_under_maintenance,
)
from tests.kit.histories.wild.machines import generate_machine

NODES = tuple(f"w{number}" for number in range(1, 8))
_UPGRADE = ("upgrade-required", "cordon-required", "drain-required", "validation-required")
"""States of a driver's upgrade, in their order; with the second the node is cordoned."""
_WAS_CORDONED = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
_PRUNED = sorted(names.NODE_LABELS - names.MODE_LABELS)


class WildDisturbances(Disturbances):
    """A cluster of machines of all kinds, all drawn from one generator of random numbers."""

    checker: WildInvariantChecker

    def __init__(self) -> None:
        super().__init__()
        self.chance = Random()
        self.checker = WildInvariantChecker()

    def begin_wild(self, seed: object, editions: Sequence[Edition]) -> None:
        """Nodes in two groups, one pool on the first of them, and perhaps a rival."""
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
        """A selector that covers whatever has the label; seldom some by name."""
        chance = self.chance
        groups = chance.choice((("a",), ("a",), ("b",), ("a", "b")))
        selector = {"match_expressions": [{"key": "group", "operator": "In", "values": groups}]}
        named = chance.sample(NODES, 2) if chance.random() < 0.1 else []
        return {"selector": selector, "names": named}

    # Machines.

    def add_machine(self, node: str) -> None:
        """A machine of any kind; only where cards are has somebody labelled it with a mode."""
        if node in self.cluster.nodes:
            return
        machine = generate_machine(self.chance)
        is_labelled = machine.cards > 0 and self.chance.random() < 0.5
        mode = self.chance.choice(MODES) if is_labelled else "none"
        labels = {"group": self.chance.choice("aab"), **LABELS[self.cluster.edition, mode]}
        self.cluster = sim.add_node(self.cluster, node, labels, machine)

    def recreate(self, node: str) -> None:
        """The machine comes back under its name, as another object; or another one does."""
        known = self.cluster.nodes.get(node)
        self.remove_node(node)
        if known is None or self.chance.random() < 0.3:
            self.add_machine(node)
            return
        labels = {key: v for key, v in known.labels.items() if key not in names.NODE_LABELS}
        self.cluster = sim.add_node(self.cluster, node, labels, known.machine)

    # Writers.

    def prune(self, node: str) -> None:
        """Who knows nothing of a label takes it away, each time under another name."""
        if node in self.cluster.nodes:
            manager = f"pruner-{self._next()}"
            for key in self.chance.sample(_PRUNED, self.chance.choice((1, 2))):
                self.cluster = sim.write_node(self.cluster, node, key, None, manager)

    def relabel_renamed(self, node: str) -> None:
        """Somebody labels the node with a mode, and calls himself differently each time."""
        self.label_by_hand(node, self.chance.choice(MODES), f"autoscaler-{self._next()}")

    def flip(self, _: str) -> None:
        """Two applications own one pool, and each writes what it has."""
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

    @abstractmethod
    def work(self, rounds: int, seconds: float, is_slow: bool) -> None:
        """The operator goes on for a while."""

    # Another controller.

    def go_on_with_upgrade(self, node: str) -> None:
        """One more step of a driver's upgrade, which cordons the node and drains it by itself. It
        uncordons no node that it found cordoned (NVIDIA/k8s-operator-libs, pkg/upgrade)."""
        if node not in self.cluster.nodes:
            return
        known = self.cluster.nodes[node]
        state = known.labels.get(DRIVER_UPGRADE, UPGRADE_DONE)
        if state == UPGRADE_DONE:
            self._write(node, DRIVER_UPGRADE, _UPGRADE[0])
        elif state != _UPGRADE[-1]:
            state = _UPGRADE[_UPGRADE.index(state) + 1]
            self._write(node, DRIVER_UPGRADE, state)
            if state == "cordon-required" and CORDON in known.fields:
                self._write(node, _WAS_CORDONED, "true")
            elif state == "cordon-required":
                self._write(node, CORDON, "true")
        else:
            self.end_upgrade(node)

    def end_upgrade(self, node: str) -> None:
        known = self.cluster.nodes.get(node)
        if known is None or not is_under_maintenance(known):
            return
        if _WAS_CORDONED not in known.fields:
            self._write(node, CORDON, None)
        self._write(node, _WAS_CORDONED, None)
        self._write(node, DRIVER_UPGRADE, UPGRADE_DONE)

    def _write(self, node: str, key: str, value: str | None) -> None:
        self.cluster = sim.write_node(self.cluster, node, key, value, "gpu-operator")

    # People.

    def retry_pool(self, name: str) -> None:
        super().retry_pool(name)
        self.checker.note_request()

    def retry_node(self, node: str) -> None:
        super().retry_node(node)
        self.checker.note_request()

    def edit(self, _: str) -> None:
        """Another spec; perhaps other nodes."""
        name = self.chance.choice(POOLS)
        more = {"nodes": self.draw_nodes()} if self.chance.random() < 0.5 else {}
        self.put_pool(name, **self.draw_spec(), **more)

    def mend(self) -> None:
        for node in sorted(self.cluster.nodes):
            self.end_upgrade(node)
        super().mend()


WILD_EVENTS: Mapping[str, Callable[[WildDisturbances, str], None]] = {
    "recreated": lambda history, node: history.recreate(node),
    "removed": lambda history, node: history.remove_node(node),
    "added": lambda history, node: history.add_machine(node),
    "pruned": lambda history, node: history.prune(node),
    "labelled by who renames himself": lambda history, node: history.relabel_renamed(node),
    "flipped": lambda history, node: history.flip(node),
    "driver upgraded": lambda history, node: history.go_on_with_upgrade(node),
    "moved": lambda history, node: history.move_node(node, history.chance.choice("ab")),
    "edited": lambda history, node: history.edit(node),
    "pool deleted": lambda history, _: history.delete_pool(history.chance.choice(POOLS)),
}
