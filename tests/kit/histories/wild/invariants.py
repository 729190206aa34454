"""Checks invariants of any cluster, however untidy, whatever is written to pools and nodes.

The cards of a node are those of its machine, and assertions of users are recorded: nothing that the
operator decides by is used.
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
"""Limit of restarts of a plugin on a node within `HOUR`."""
HOUR = timedelta(hours=1)
_LABELS = "the plugins that its labels select"
_ABSENT = ("", "false")
"""Values of a mode's label for whole cards."""


class WildInvariantChecker(InvariantChecker):
    """Checks, besides the invariants of all histories, those of untidy nodes."""

    def __init__(self) -> None:
        super().__init__()
        self._asserted: set[str] = set()
        """UIDs of nodes that a user declared to have cards."""
        self._restarted: defaultdict[tuple[str, str], list[datetime]] = defaultdict(list)
        """Times of restarts since a user's last request, by the node's UID and a DaemonSet, or
        `_LABELS`."""
        self._most: defaultdict[tuple[str, str], int] = defaultdict(int)

    @property
    def most_restarts(self) -> int:
        """Most restarts of a plugin on a node within an hour so far."""
        return max(self._most.values(), default=0)

    def note_request(self, uids: set[str] | None = None) -> None:
        """Record that a user retries, starts or approves changes of these nodes, or labels them
        (None: any), which may restart their plugins once more."""
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
        """Record nodes that a user names in a pool, labels, or declares to have cards."""
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
        """Check that no node without cards is cordoned, labelled or restarted."""
        node = before.nodes[name]
        if self._may_have_cards(node):
            return
        old, new = (_read_ours(each.nodes[name]) for each in (before, after))
        assert old == new, f"{name} ({node.machine.kind}) has no card: {old} becomes {new}"
        deleted = _list_deleted(name, before, after)
        assert not deleted, f"{name} ({node.machine.kind}) has no card: {deleted} are deleted"

    def _may_have_cards(self, node: SimulatedNode) -> bool:
        """Tell whether the Node or a user shows cards."""
        if not node.machine.runs_daemonsets:
            return False
        is_discovered = f"{names.RESOURCE_WHOLE_GPU}.count" in node.labels
        shows = node.machine.shows_cards or is_discovered or bool(node.capacity)
        return shows or self.is_asserted(node)

    def _expect_few_restarts(self, name: str, before: Cluster, after: Cluster) -> None:
        """Check that a plugin restarts at most six times an hour, whatever is written to a pool; a
        change of the mode's label counts where the DaemonSet selects it."""
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
    """Tell whether another manager wrote a mode's label on the node."""
    return any(
        node.labels.get(key, "") not in _ABSENT and node.owners(key) - {names.FIELD_MANAGER}
        for key in names.MODE_LABELS
    )


def _read_ours(node: SimulatedNode) -> dict[str, object]:
    return {key: known for key, known in node.fields.items() if key in OURS}


def _list_deleted(name: str, before: Cluster, after: Cluster) -> list[str]:
    """List the DaemonSets of the node's pods that a write deleted; empty for other pods."""
    return [
        each.pod.daemonset
        for uid, each in after.pods.items()
        if each.pod.node == name and each.pod.deleting and not before.pods[uid].pod.deleting
    ]
