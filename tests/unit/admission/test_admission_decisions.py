"""Which pool a pod is sent to."""

import pytest

from gpushare.api.namespace import Namespace
from gpushare.api.podrequest import PodRequest
from gpushare.api.pool import Schedule
from gpushare.core.admission import PoolView, decide
from gpushare.names import Reason
from tests.kit.reviews import CORE, MEMORY

SHARE = PoolView("inference", Schedule.SHARE)
CGPU = PoolView("training", Schedule.CGPU)
MPS = PoolView("streams", Schedule.MPS)
CORE_MEM = PoolView("slices", Schedule.CORE_MEM)
WHOLE = PoolView("whole", Schedule.DEFAULT, 1000)

HERE = Namespace("default")
GPU = {MEMORY: 3}
PLAIN = PodRequest(GPU)
UNISOLATED = PodRequest(GPU, disables_isolation=True)
WITH_CORE = PodRequest({MEMORY: 3, CORE: 30})
REQUIRED = PodRequest(GPU, isolation="required")
UNWANTED = PodRequest(GPU, isolation="none")


@pytest.mark.parametrize(
    ("pod", "pools", "reason", "chosen"),
    [
        (PLAIN, [SHARE, CGPU], Reason.ROUTED, CGPU),
        (PLAIN, [SHARE, MPS], Reason.ROUTED, MPS),
        (PLAIN, [SHARE], Reason.ROUTED_WITHOUT_ISOLATION, SHARE),
        (PLAIN, [CORE_MEM], Reason.NO_ELIGIBLE_POOL, None),
        (PLAIN, [SHARE, CORE_MEM], Reason.ROUTED_WITHOUT_ISOLATION, SHARE),
        (PLAIN, [WHOLE], Reason.NO_ELIGIBLE_POOL, None),
        (PLAIN, [], Reason.NO_ELIGIBLE_POOL, None),
        (UNISOLATED, [SHARE, CGPU], Reason.ROUTED, SHARE),
        (UNISOLATED, [CGPU], Reason.ROUTED, CGPU),
        (WITH_CORE, [SHARE, CGPU, CORE_MEM], Reason.ROUTED, CORE_MEM),
        (WITH_CORE, [SHARE, CGPU], Reason.NO_ELIGIBLE_POOL, None),
        (REQUIRED, [SHARE, CGPU], Reason.ROUTED, CGPU),
        (REQUIRED, [SHARE], Reason.ISOLATION_UNAVAILABLE, None),
        (REQUIRED, [MPS], Reason.ISOLATION_UNAVAILABLE, None),
        (REQUIRED, [CORE_MEM], Reason.ISOLATION_UNAVAILABLE, None),
        (UNWANTED, [SHARE, CGPU], Reason.ROUTED, SHARE),
        (UNWANTED, [CGPU, MPS], Reason.NO_ELIGIBLE_POOL, None),
        (PodRequest(), [SHARE], Reason.NO_GPU_REQUEST, None),
    ],
)
def test_each_pod_goes_where_the_rules_say(
    pod: PodRequest, pools: list[PoolView], reason: Reason, chosen: PoolView | None
) -> None:
    decision = decide(pod, HERE, pools)
    assert (decision.reason, decision.pool) == (reason, chosen and chosen.name)
