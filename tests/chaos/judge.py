"""Judges every event against the promises P1, P3 and P4; no I/O.

P1: we own nothing on nodes but our keys, and delete none but device plugins' pods. P3: no change
starts while the budget is used up. P4: a plugin is deleted once per change, and never without one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tests.chaos.node_state import ChangeSeen, Deletion, NodeSeen, PodSeen

_NOTICE_SECONDS = 1.0
"""A node that others took out of service so short a time before may not be known of yet."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and how."""

    promise: str
    sentence: str


@dataclass(frozen=True)
class Rules:
    """What is asked of the rollout of one pool."""

    pool: str
    budget: int
    """Members that may be out of service at once, joining ones aside."""


@dataclass
class Judge:
    """All that was seen so far. Nodes and pods arrive each in their own order, as do deletions."""

    rules: Rules
    nodes: dict[str, NodeSeen] = field(default_factory=dict)
    restarts: Counter[str] = field(default_factory=Counter)
    """By node, the plugin pods that the operator deleted."""
    _out_since: dict[str, float] = field(default_factory=dict)
    """By node, when others took it out of service."""
    _changes: defaultdict[str, list[tuple[int, ChangeSeen | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By node, from which revision on which change was under way."""
    _revision: int = 0
    """Of the nodes: everything up to it was seen."""
    _blind_from: int = 0
    _blind_until: int = 0
    """Revisions of the last gap in what was seen of the nodes."""
    _pods: dict[tuple[str, str], PodSeen] = field(default_factory=dict)
    """The last state of every pod that was ever seen, but of a leaving one the first."""
    _missed: set[str] = field(default_factory=set)
    """UIDs of pods that went while nobody looked: when is unknown."""
    _unschedulable_pods: list[Deletion] = field(default_factory=list)
    """Deletions that wait until the pod and its node were seen."""
    _deleted: Counter[tuple[str, str]] = field(default_factory=Counter)
    _per_change: Counter[tuple[str, ...]] = field(default_factory=Counter)

    # Nodes.

    def see_node(self, node: NodeSeen, at: float) -> list[Violation]:
        """A node was added or changed; `at` is seconds of a clock that never goes back."""
        before = self.nodes.get(node.name)
        found = list(self._judge_fields(node, before))
        if starts_change(node, before) and self.rules.pool in node.pools:
            found += self._judge_start(node, at)
        self._enter(node, at)
        found += self._judge_cordons(node, before)
        return [*found, *self._settle()]

    def lose_node(self, name: str, revision: int) -> list[Violation]:
        """A node was deleted.

        A change that was under way stands until a node of this name comes again: who writes in it
        may not have heard, and a plugin on a node that is gone serves nobody.
        """
        self.nodes.pop(name, None)
        self._out_since.pop(name, None)
        self._revision = max(self._revision, revision)
        return self._settle()

    def replace_nodes(self, nodes: Iterable[NodeSeen], revision: int, at: float) -> list[Violation]:
        """All nodes at one instant, after a gap in which changes were not seen one by one. Starts
        in the gap can't be judged: who else was out of service at that moment is unknown."""
        current = {node.name: node for node in nodes}
        self._blind_from, self._blind_until = self._revision, revision
        found = []
        for name in self.nodes.keys() - current.keys():
            found += self.lose_node(name, revision)
        for node in current.values():
            found += self._judge_fields(node, self.nodes.get(node.name))
            self._enter(node, at)
        self._revision = max(self._revision, revision)
        return [*found, *self._judge_cordons(None, None), *self._settle()]

    def _enter(self, node: NodeSeen, at: float) -> None:
        before = self.nodes.get(node.name)
        change_before = before.change if before is not None else None
        if not node.takes_capacity:
            self._out_since.pop(node.name, None)
        elif node.change is not None or change_before is not None:
            # Ours, so we know of it from the start.
            self._out_since[node.name] = float("-inf")
        else:
            self._out_since.setdefault(node.name, at)
        if node.change != change_before or before is None:
            self._changes[node.name].append((node.revision, node.change))
        self.nodes[node.name] = node
        self._revision = max(self._revision, node.revision)

    def _judge_fields(self, node: NodeSeen, before: NodeSeen | None) -> Iterator[Violation]:
        if node.strange_fields and (before is None or before.strange_fields != node.strange_fields):
            fields = ", ".join(node.strange_fields)
            yield Violation("P1", f"node {node.name}: our field manager owns {fields}")

    def _judge_start(self, node: NodeSeen, at: float) -> Iterator[Violation]:
        noticed = at - _NOTICE_SECONDS
        others = sorted(
            name
            for name, other in self.nodes.items()
            if name != node.name
            and self.rules.pool in other.pools
            and other.takes_capacity
            and self._out_since[name] <= noticed
        )
        if len(others) >= self.rules.budget:
            yield Violation(
                "P3",
                f"a change started on node {node.name} (revision {node.revision}) while "
                f"{', '.join(others)} were out of service; the budget is {self.rules.budget}",
            )

    def _judge_cordons(self, node: NodeSeen | None, before: NodeSeen | None) -> Iterator[Violation]:
        if node is not None and (not is_held(node) or (before is not None and is_held(before))):
            return
        held = sorted(
            each.name
            for each in self.nodes.values()
            if is_held(each) and self.rules.pool in each.pools
        )
        if len(held) > self.rules.budget:
            yield Violation(
                "P3",
                f"{', '.join(held)} are cordoned by us at once; the budget is {self.rules.budget}",
            )

    # Pods.

    def see_pod(self, pod: PodSeen) -> list[Violation]:
        key = pod.namespace, pod.name
        known = self._pods.get(key)
        if known is None or known.uid != pod.uid or not known.leaving:
            self._pods[key] = pod
        return self._settle()

    def replace_pods(self, pods: Iterable[PodSeen]) -> list[Violation]:
        """All pods at one instant, after a gap in which changes were not seen one by one."""
        current = {(pod.namespace, pod.name): pod for pod in pods}
        for key, pod in self._pods.items():
            if not pod.leaving and (key not in current or current[key].uid != pod.uid):
                self._pods[key] = replace(pod, leaving=True)
                self._missed.add(pod.uid)
        return [found for pod in current.values() for found in self.see_pod(pod)]

    def see_deletion(self, deletion: Deletion) -> list[Violation]:
        self._unschedulable_pods.append(deletion)
        return self._settle()

    def finish(self) -> list[Violation]:
        """Everything up to now was seen: what still could not be placed never will be."""
        left, self._unschedulable_pods = self._unschedulable_pods, []
        return [found for deletion in left for found in self._judge_deletion(deletion)]

    def _settle(self) -> list[Violation]:
        """Judge the deletions of which all is known."""
        ready = [each for each in self._unschedulable_pods if self._is_placed(each)]
        self._unschedulable_pods = [each for each in self._unschedulable_pods if each not in ready]
        return [found for deletion in ready for found in self._judge_deletion(deletion)]

    def _is_placed(self, deletion: Deletion) -> bool:
        pod = self._pods.get((deletion.namespace, deletion.name))
        return pod is not None and pod.leaving and pod.revision <= self._revision

    def _judge_deletion(self, deletion: Deletion) -> Iterator[Violation]:
        name = f"{deletion.namespace}/{deletion.name}"
        pod = self._pods.get((deletion.namespace, deletion.name))
        if deletion.evicted:
            yield Violation("P1", f"pod {name} was evicted, which is not switched on")
            return
        if pod is None or not pod.is_plugin:
            owner = pod.daemonset if pod is not None and pod.daemonset else "no device plugin"
            yield Violation("P1", f"pod {name}, owned by {owner}, was deleted")
            return
        self.restarts[pod.node] += 1
        self._deleted[pod.namespace, pod.name] += 1
        if (times := self._deleted[pod.namespace, pod.name]) > 1:
            yield Violation("P4", f"plugin pod {name} on {pod.node} was deleted {times} times")
            return
        yield from self._judge_restart(pod)

    def _judge_restart(self, pod: PodSeen) -> Iterator[Violation]:
        if pod.uid in self._missed:
            return
        change = self._find_change(pod.node, pod.revision)
        if change is None:
            if not self._blind_from <= pod.revision <= self._blind_until:
                yield Violation(
                    "P4",
                    f"plugin pod {pod.name} was deleted (revision {pod.revision}) with no change "
                    f"under way on node {pod.node}",
                )
            return
        key = pod.node, pod.component, *change.key
        self._per_change[key] += 1
        if (times := self._per_change[key]) > 1:
            yield Violation(
                "P4",
                f"node {pod.node}: {times} plugin pods were deleted in one change "
                f"({change.from_mode} -> {change.to}, since {change.since})",
            )

    def _find_change(self, node: str, revision: int) -> ChangeSeen | None:
        states = [change for since, change in self._changes[node] if since <= revision]
        return states[-1] if states else None


def starts_change(node: NodeSeen, before: NodeSeen | None) -> bool:
    """Whether the node was in no change, and now is in one that takes capacity away."""
    was_under_way = before is not None and before.change is not None
    return node.change is not None and not node.change.initializing and not was_under_way


def is_held(node: NodeSeen) -> bool:
    """Cordoned by us; a node that joins takes no capacity away."""
    initializing = node.change is not None and node.change.initializing
    return node.cordoned and node.cordoned_by_us and not initializing
