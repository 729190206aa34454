"""When a plan that was started outside the windows is over."""

from gpushare.api.k8s.node import Node
from gpushare.api.status import PoolStatus
from gpushare.core.status.pool_status import build_status
from gpushare.names import Condition
from tests.kit.values.node_plans import a_settled, changing, done, has_failed
from tests.kit.values.objects import NOW
from tests.unit.planner.planner_output import Rollout
from tests.unit.planner.test_windows_of_a_pool import FLIP, a_started

STARTED = a_started(str(FLIP))


def tell(*nodes: Node) -> PoolStatus:
    """The status of a pool with these nodes, whose plan was started now."""
    rollout = Rollout(*nodes, pool=STARTED)
    return build_status(STARTED, rollout.planner.plans_by_pool["training"], NOW)


def test_a_plan_that_was_started_now_is_over_once_the_rollout_is_complete() -> None:
    for last, is_over in ((a_settled(), False), (changing(), False), (done("gpu-1"), True)):
        status = tell(done("gpu-9"), last)
        (found,) = (c for c in status.conditions if c.type == Condition.ROLLOUT_COMPLETE)
        assert found.status == str(is_over)
        assert status.started_now is not None
        assert status.started_now.kinds == (() if is_over else (str(FLIP),))


def test_a_plan_that_was_started_now_is_over_beside_a_node_that_failed() -> None:
    for others, is_over in (([done("gpu-1")], True), ([a_settled()], False)):
        started = tell(has_failed(), *others).started_now
        assert started is not None
        assert started.kinds == (() if is_over else (str(FLIP),))
