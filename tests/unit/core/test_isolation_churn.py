"""Pods that come and go write no status of their own, whatever is known of their isolation."""

from datetime import timedelta

from gpushare.api.pod import SharingContainer
from gpushare.api.pool import Pool, Schedule
from gpushare.api.status import PoolStatus
from gpushare.core.observed import Timing
from gpushare.core.plan import Planner
from gpushare.core.status import build_status
from tests.kit.values.node_plans import OURS, SHARE, applied
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node, a_world
from tests.kit.values.teardown_plans import PLUGIN, manual_pool


def _status(pool: Pool, pods: int, after: timedelta) -> PoolStatus:
    records = applied(Schedule.SHARE, module=True)
    node = a_node(labels={**SHARE, **OURS}, records=records, allocatable={MEMORY: 15})
    main = (SharingContainer("main"),)
    running = [a_gpu_pod(f"train-{index}", containers=main) for index in range(pods)]
    planner = Planner(Timing())
    planner.update(a_world(pools=(pool,), nodes=(node,), pods=(PLUGIN, *running)), None, NOW)
    return build_status(pool, planner.books[pool.name], NOW + after)


def test_one_more_of_those_of_which_nobody_knows_waits_for_the_pace_of_counts() -> None:
    pool = manual_pool()
    pool = pool.model_copy(update={"status": _status(pool, 3, timedelta())})
    assert _status(pool, 4, timedelta(milliseconds=600)) == pool.status
