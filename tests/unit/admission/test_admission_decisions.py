"""Which pool a pod is sent to."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.podrequest import PodRequest
from gpushare.api.pool import Edition, Schedule
from gpushare.core.admission import Decision, PoolView, decide, view_pool
from gpushare.names import Reason
from tests.kit.reviews import CORE, MEMORY

GPU = frozenset({MEMORY})
GPU_AND_CORE = frozenset({MEMORY, CORE})

SHARE = PoolView("inference", Schedule.SHARE, 100)
CGPU = PoolView("training", Schedule.CGPU, 100)
MPS = PoolView("streams", Schedule.MPS, 100)
CORE_MEM = PoolView("slices", Schedule.CORE_MEM, 100)
WHOLE = PoolView("whole", Schedule.DEFAULT, 1000)
TOPOLOGY = PoolView("nvlink", Schedule.TOPOLOGY, 1000)

PLAIN = PodRequest(GPU)
UNISOLATED = PodRequest(GPU, disables_isolation=True)
WITH_CORE = PodRequest(GPU_AND_CORE)
REQUIRED = PodRequest(GPU, isolation="required")
REFUSED = PodRequest(GPU, isolation="none")


@pytest.mark.parametrize(
    ("pod", "pools", "reason", "chosen"),
    [
        (PLAIN, [SHARE, CGPU], Reason.ROUTED, CGPU),
        (PLAIN, [SHARE, MPS], Reason.ROUTED, MPS),
        (PLAIN, [SHARE], Reason.ROUTED_WITHOUT_ISOLATION, SHARE),
        (PLAIN, [CORE_MEM], Reason.NO_ELIGIBLE_POOL, None),
        (PLAIN, [SHARE, CORE_MEM], Reason.ROUTED_WITHOUT_ISOLATION, SHARE),
        (PLAIN, [WHOLE, TOPOLOGY], Reason.NO_ELIGIBLE_POOL, None),
        (PLAIN, [], Reason.NO_ELIGIBLE_POOL, None),
        (UNISOLATED, [SHARE, CGPU], Reason.ROUTED, SHARE),
        (UNISOLATED, [CGPU], Reason.ROUTED, CGPU),
        (WITH_CORE, [SHARE, CGPU, CORE_MEM], Reason.ROUTED, CORE_MEM),
        (WITH_CORE, [SHARE, CGPU], Reason.NO_ELIGIBLE_POOL, None),
        (REQUIRED, [SHARE, CGPU], Reason.ROUTED, CGPU),
        (REQUIRED, [SHARE], Reason.ISOLATION_UNAVAILABLE, None),
        (REQUIRED, [MPS], Reason.ISOLATION_UNAVAILABLE, None),
        (REQUIRED, [CORE_MEM], Reason.ISOLATION_UNAVAILABLE, None),
        (REFUSED, [SHARE, CGPU], Reason.ROUTED, SHARE),
        (REFUSED, [CGPU, MPS], Reason.NO_ELIGIBLE_POOL, None),
        (PodRequest(), [SHARE], Reason.NO_GPU_REQUEST, None),
        (PodRequest(GPU, selects=("cgpu",)), [SHARE], Reason.ALREADY_SELECTS, None),
        (PodRequest(GPU, placed_by="its nodeName"), [SHARE], Reason.NOT_ROUTED, None),
    ],
)
def test_each_pod_goes_where_the_rules_say(
    pod: PodRequest, pools: list[PoolView], reason: Reason, chosen: PoolView | None
) -> None:
    decision = decide(pod, pools)
    assert (decision.reason, decision.pool) == (reason, chosen and chosen.name)


def test_the_higher_priority_wins_among_equals() -> None:
    low, high = PoolView("a", Schedule.CGPU, 1), PoolView("b", Schedule.CGPU, 2)
    assert decide(PLAIN, [low, high]).pool == "b"


def test_the_name_decides_between_equal_priorities() -> None:
    first, second = PoolView("a", Schedule.CGPU, 1), PoolView("b", Schedule.CGPU, 1)
    assert decide(PLAIN, [second, first]).pool == "a"


def test_isolation_goes_before_priority() -> None:
    popular = PoolView("popular", Schedule.SHARE, 1000)
    assert decide(PLAIN, [popular, CGPU]).pool == CGPU.name


@pytest.mark.parametrize("pod", [PLAIN, UNISOLATED, REQUIRED, WITH_CORE])
def test_the_order_of_the_pools_does_not_matter(pod: PodRequest) -> None:
    decisions = {decide(pod, order) for order in permutations([SHARE, CGPU, MPS, CORE_MEM])}
    assert len(decisions) == 1


@pytest.mark.parametrize(
    ("pod", "pools", "words"),
    [
        (PLAIN, [SHARE], "does not isolate GPU memory"),
        (UNISOLATED, [CGPU], "others count on isolation"),
        (PLAIN, [], "not sent to a pool"),
        (PodRequest(GPU_AND_CORE, isolation="none"), [CORE_MEM], "no mode gives"),
        (PodRequest(GPU, isolation="maybe"), [CGPU], "neither required nor none"),
        (PodRequest(frozenset({CORE})), [CORE_MEM], "both"),
        (PodRequest(GPU, isolation="required", disables_isolation=True), [CGPU], "CGPU_DISABLE"),
    ],
)
def test_who_creates_a_pod_is_warned_where_it_gets_less_than_it_asked_for(
    pod: PodRequest, pools: list[PoolView], words: str
) -> None:
    (warning,) = decide(pod, pools).warnings
    assert words in warning


@pytest.mark.parametrize(("pod", "pools"), [(PLAIN, [CGPU]), (UNISOLATED, [SHARE])])
def test_a_pod_that_gets_what_it_asked_for_draws_no_warning(
    pod: PodRequest, pools: list[PoolView]
) -> None:
    assert decide(pod, pools).warnings == ()


requests = st.builds(
    PodRequest,
    resources=st.frozensets(st.sampled_from([MEMORY, CORE])),
    disables_isolation=st.booleans(),
    isolation=st.sampled_from(["", "required", "none", "x" * 300]),
    selects=st.sampled_from([(), ("cgpu",)]),
    placed_by=st.sampled_from(["", "its nodeName"]),
)
pools = st.lists(
    st.builds(
        PoolView,
        name=st.text("abcdefgh-", min_size=1, max_size=63),
        schedule=st.sampled_from(Schedule),
        priority=st.integers(0, 1_000_000),
    ),
    unique_by=lambda pool: pool.name,
)


@given(requests, pools)
def test_a_pod_that_asks_for_shared_gpu_is_routed_warned_or_refused_unless_others_decided(
    pod: PodRequest, pools: list[PoolView]
) -> None:
    decision = decide(pod, pools)
    decided_already = not pod.resources or pod.selects or pod.placed_by
    answered = decision.pool or decision.warnings or decision.is_refused
    assert bool(answered) is not bool(decided_already)


@given(requests, pools)
def test_required_isolation_never_ends_in_a_pool_that_does_not_isolate(
    pod: PodRequest, pools: list[PoolView]
) -> None:
    decision: Decision = decide(pod, pools)
    chosen = next((pool for pool in pools if pool.name == decision.pool), None)
    if pod.isolation == "required" and chosen:
        assert chosen.schedule in (Schedule.CGPU, Schedule.CORE_MEM)


@given(requests, pools)
def test_a_pod_without_core_percentage_is_never_sent_to_core_mem(
    pod: PodRequest, pools: list[PoolView]
) -> None:
    decision = decide(pod, pools)
    chosen = next((pool for pool in pools if pool.name == decision.pool), None)
    if chosen and chosen.schedule is Schedule.CORE_MEM:
        assert CORE in pod.resources


@given(requests, pools)
def test_no_warning_is_cut_by_the_api_server(pod: PodRequest, pools: list[PoolView]) -> None:
    assert all(len(warning) <= 256 for warning in decide(pod, pools).warnings)


def build_pool(**more: object) -> dict[str, object]:
    spec = {"edition": "Basic", "schedule": "cgpu", "priority": 7, **more}
    return {"metadata": {"name": "training"}, "spec": spec}


def test_a_pool_is_seen_with_its_mode_and_priority() -> None:
    assert view_pool(build_pool()) == PoolView("training", Schedule.CGPU, 7, Edition.BASIC)


def test_a_pool_that_is_being_deleted_takes_no_pods() -> None:
    raw = build_pool()
    raw["metadata"] = {"name": "training", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert view_pool(raw) is None


def test_a_pool_whose_mode_is_unknown_takes_no_pods() -> None:
    assert view_pool(build_pool(schedule="mig")) is None


@pytest.mark.parametrize(
    ("edition", "labels"),
    [
        (Edition.PROFESSIONAL, {"ack.node.gpu.schedule": "cgpu"}),
        (Edition.BASIC, {"cgpu": "true", "cgpu.disable.isolation": "false"}),
    ],
)
def test_required_isolation_selects_the_mode_too_since_a_pool_may_be_half_way(
    edition: Edition, labels: dict[str, str]
) -> None:
    pod = PodRequest(frozenset({"aliyun.com/gpu-mem"}), isolation="required")
    decision = decide(pod, [PoolView("training", Schedule.CGPU, 1, edition)])
    assert dict(decision.selector) == {"gpushare.io/pool": "training", **labels}


def test_a_pod_that_requires_isolation_is_refused_rather_than_run_without() -> None:
    decision = decide(REQUIRED, [SHARE])
    assert decision.is_refused
    assert "cgpu" in decision.message
