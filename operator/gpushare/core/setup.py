"""How an installation is set up, for those who ask its planner without being its controller.

That is written in none of the objects that decisions are about: it is told, or guessed from those.
"""

from dataclasses import dataclass, field
from datetime import datetime

from gpushare.core.capacity import observe_node_capacity, tell_unit
from gpushare.core.observed import Pass, Timing
from gpushare.core.plan import Planner
from gpushare.core.world import World
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings on which decisions depend."""

    memory_unit: str = "GiB"
    may_evict: bool = False
    may_tear_down: bool = False
    timing: Timing = field(default_factory=Timing)

    def build_planner(self) -> Planner:
        """The planner of a controller that is set so, and has decided nothing yet."""
        return Planner(
            self.timing,
            may_evict=self.may_evict,
            may_tear_down=self.may_tear_down,
            memory_unit=self.memory_unit,
        )

    def build_pass(self, world: World, now: datetime) -> Pass:
        """What that planner tells each decision about `world`."""
        return Pass(
            now,
            self.timing,
            world.daemonsets,
            may_evict=self.may_evict,
            may_tear_down=self.may_tear_down,
            memory_unit=self.memory_unit,
        )


def guess_setup(world: World) -> Setup:
    """By what `world` tells: it may evict and tear down unless a pool's status says that not."""
    told = {sample.reason for pool in world.pools for sample in pool.status.samples}
    return Setup(
        guess_unit(world),
        may_evict=Reason.EVICTION_DISABLED not in told,
        may_tear_down=Reason.TEARDOWN_DISABLED not in told,
    )


def guess_unit(world: World) -> str:
    """That of most nodes."""
    totals = (observe_node_capacity(node, ()).card_total for node in world.nodes.values())
    in_mib = [tell_unit(total) == "MiB" for total in totals if total]
    return "MiB" if sum(in_mib) * 2 > len(in_mib) else "GiB"
