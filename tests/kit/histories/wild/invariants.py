"""What is promised on any cluster, however untidy, whatever is written to pools and nodes.

Whether a node has cards is known of its machine, and who asserted it is watched: nothing of what
the operator decides by is used.
"""

from collections import defaultdict
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.api.rollout import ApprovalPolicy
from tests.kit.histories.field_ownership import SimulatedNode
from tests.kit.histories.invariants import OURS, InvariantChecker
from tests.kit.histories.simulated_cluster import Cluster
from tests.kit.histories.simulated_operator import Task
from tests.kit.histories.turns import read_phase

MOST_RESTARTS = 6
"""Of one plugin on one node within `HOUR`."""
HOUR = timedelta(hours=1)
_LABELS = "the plugins that its labels select"
_ABSENT = ("", "false")
"""A label of a mode with such a value says that no card is shared."""


class WildInvariantChecker(InvariantChecker):
    """Watches, beside the promises of all histories, those about nodes that are not tidy."""

    def __init__(self) -> None:
        super().__init__()
        self._asserted: set[str] = set()
        """UIDs of nodes of which a person said that they have cards."""
        self._restarted: defaultdict[tuple[str, str], list[datetime]] = defaultdict(list)
        """By a node's UID and a DaemonSet, or `_LABELS`, since a person last asked for more."""
        self._most: defaultdict[tuple[str, str], int] = defaultdict(int)

    @property
    def most_restarts(self) -> int:
        """Of one plugin on one node within an hour, so far."""
        return max(self._most.values(), default=0)

    def note_request(self, uids: set[str] | None = None) -> None:
        """A person retries, starts or approves changes of these nodes, or labels them (None: any):
        that may restart their plugins once more."""
        for uid, what in list(self._restarted):
            if uids is None or uid in uids:
                del self._restarted[uid, what]

    def note_approval(self, pool: Pool) -> None:
        super().note_approval(pool)
        if pool.spec.rollout.approval is ApprovalPolicy.MANUAL:
            self.note_request()

    def note_start(self, pool: Pool, value: str) -> None:
        super().note_start(pool, value)
        self.note_request()

    def note_labelling(self, name: str, cluster: Cluster) -> None:
        super().note_labelling(name, cluster)
        self.note_request({cluster.nodes[name].uid})

    # Decisions.

    def note_assertions(self, cluster: Cluster) -> None:
        """A person names a node in a pool, writes a mode's label on it, or says that all nodes of
        a pool have cards."""
        for node in cluster.nodes.values():
            is_named = any(node.name in pool.spec.nodes.named for pool in cluster.pools.values())
            if is_named or _is_labelled(node):
                self._asserted.add(node.uid)

    def is_asserted(self, node: SimulatedNode) -> bool:
        return node.uid in self._asserted

    # Writes.

    def expect_fair_write(self, task: Task, before: Cluster, after: Cluster) -> None:
        name = task.decision.plan.node
        if name in before.nodes:
            self._expect_cards(name, before, after)
            self._expect_few_restarts(name, before, after)
        super().expect_fair_write(task, before, after)

    def _expect_cards(self, name: str, before: Cluster, after: Cluster) -> None:
        """No node without cards is cordoned, labelled or restarted."""
        node = before.nodes[name]
        if self._may_have_cards(node):
            return
        old, new = (_read_ours(each.nodes[name]) for each in (before, after))
        assert old == new, f"{name} ({node.machine.kind}) has no card: {old} becomes {new}"
        deleted = _list_deleted(name, before, after)
        assert not deleted, f"{name} ({node.machine.kind}) has no card: {deleted} are deleted"

    def _may_have_cards(self, node: SimulatedNode) -> bool:
        """As far as its Node shows, or a person says."""
        if not node.machine.runs_daemonsets:
            return False
        is_discovered = f"{names.RESOURCE_WHOLE_GPU}.count" in node.labels
        shows = node.machine.shows_cards or is_discovered or bool(node.capacity)
        return shows or self.is_asserted(node)

    def _expect_few_restarts(self, name: str, before: Cluster, after: Cluster) -> None:
        """Whatever is written to a pool, a plugin restarts at most six times an hour; where its
        DaemonSet selects the mode's label, that label restarts it."""
        phases = read_phase(before, name), read_phase(after, name)
        labelled = [_LABELS] if phases == ("Cordoned", "Labelled") else []
        for what in filter(None, [*_list_deleted(name, before, after), *labelled]):
            key = before.nodes[name].uid, what
            recent = [at for at in self._restarted[key] if before.now - at < HOUR]
            self._restarted[key] = [*recent, before.now]
            self._most[key] = max(self._most[key], len(self._restarted[key]))
            times = [f"{at:%H:%M:%S}" for at in self._restarted[key]]
            assert len(times) <= MOST_RESTARTS, f"{what} on {name} restart at {times}"


def _is_labelled(node: SimulatedNode) -> bool:
    """Whether somebody else wrote a mode's label on it."""
    return any(
        node.labels.get(key, "") not in _ABSENT and node.owners(key) - {names.FIELD_MANAGER}
        for key in names.MODE_LABELS
    )


def _read_ours(node: SimulatedNode) -> dict[str, object]:
    return {key: known for key, known in node.fields.items() if key in OURS}


def _list_deleted(name: str, before: Cluster, after: Cluster) -> list[str]:
    """DaemonSets of the node's pods that are deleted by this write; empty for any other pod."""
    return [
        each.pod.daemonset
        for uid, each in after.pods.items()
        if each.pod.node == name and each.pod.deleting and not before.pods[uid].pod.deleting
    ]
