"""How an installation is set up, for those who ask its planner without being its controller."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpushare import names
from gpushare.core.admission.request import Rules
from gpushare.core.capacity.pool_capacity import MemorySums, observe_node_capacity
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import ReconcileContext, Timing


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings on which decisions depend."""

    memory_unit: str = "GiB"
    may_evict: bool = False
    may_tear_down: bool = False
    timing: Timing = field(default_factory=Timing)
    recheck: timedelta = timedelta(seconds=2)
    """Between the two readings of a cordoned node's pods."""
    rules: Rules = field(default_factory=Rules)
    plugin_namespace: str = names.PLUGIN_NAMESPACE

    def build_planner(self) -> Planner:
        """The planner of a controller that is set so, and has decided nothing yet."""
        return Planner(
            self.timing,
            may_evict=self.may_evict,
            may_tear_down=self.may_tear_down,
            memory_unit=self.memory_unit,
        )

    def build_reconcile_context(self, snapshot: ClusterSnapshot, now: datetime) -> ReconcileContext:
        """What that planner tells each decision about `snapshot`."""
        return ReconcileContext(
            now,
            self.timing,
            snapshot.plugin_daemonsets,
            may_evict=self.may_evict,
            may_tear_down=self.may_tear_down,
            memory_unit=self.memory_unit,
        )


def guess_unit(snapshot: ClusterSnapshot) -> str:
    """That of most nodes."""
    sums = MemorySums()
    for node in snapshot.nodes.values():
        sums.count(observe_node_capacity(node, ()))
    return sums.usual_unit
