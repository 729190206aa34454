"""What a pod's owner wrote about nodes goes before any choice of ours."""

from typing import Any

import pytest

from gpushare.core.admission.request import Rules
from gpushare.names import Reason
from tests.kit.values.manifests import build_pod
from tests.kit.values.pool_views import Json, a_view, admit
from tests.unit.admission.test_admission_decisions import CGPU, SHARE

BASIC = a_view("basic", "cgpu", edition="Basic")
MODE, POOL, ZONE = "ack.node.gpu.schedule", "gpushare.io/pool", "topology.kubernetes.io/zone"


def _need(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def _selecting(
    *terms: list[Json], selector: Json | None = None, part: str = "matchExpressions"
) -> Json:
    """A pod whose required node affinity has these terms, and its node selector this."""
    spec: dict[str, Any] = {"nodeSelector": selector} if selector else {}
    if terms:
        required = {"nodeSelectorTerms": [{part: term} for term in terms]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        spec["affinity"] = {"nodeAffinity": affinity}
    return build_pod("a", **spec)


@pytest.mark.parametrize(
    "pod",
    [
        _selecting(selector={POOL: "inference"}),
        _selecting(selector={MODE: "share"}),
        _selecting(selector={"cgpu": "true"}),
        _selecting([_need(POOL, "In", "inference", "gone")]),
        _selecting([_need(MODE, "Exists")]),
        _selecting([_need(MODE, "In", "cgpu")], [_need(MODE, "Exists")], selector={MODE: "share"}),
        _selecting([_need(POOL, "In", "a"), _need(POOL, "NotIn", "a")], [_need(MODE, "Exists")]),
        _selecting([_need(ZONE, "In", "a")], [_need(POOL, "In", "inference")]),
        _selecting([_need(POOL, "Exists"), _need(POOL, "NotIn", "training")]),
        _selecting([_need(MODE, "DoesNotExist"), _need("cgpu", "Exists")]),
    ],
)
def test_a_pod_that_chooses_by_our_labels_is_left_as_it_is(pod: Json) -> None:
    decision = admit(pod, CGPU, SHARE, BASIC)
    assert (decision.reason, decision.selector) == (Reason.ALREADY_SELECTS, ())
    assert decision.warnings == ()


@pytest.mark.parametrize(
    "pod",
    [
        _selecting(selector={POOL: "gone"}),
        _selecting(selector={POOL: "training", MODE: "share"}),
        _selecting([_need(POOL, "In", "training")], selector={MODE: "share"}),
        _selecting([_need("gpushare", "Exists")]),
        _selecting([_need(MODE, "Gt", "1")]),
        _selecting([_need(POOL, "Lt", "1")]),
        _selecting([_need(POOL, "Exists"), _need(MODE, "NotIn", "share", "cgpu")]),
    ],
)
def test_a_selection_that_no_pool_satisfies_draws_a_warning(pod: Json) -> None:
    decision = admit(pod, CGPU, SHARE)
    assert (decision.reason, decision.selector) == (Reason.SELECTS_NO_POOL, ())
    assert "no pool has such nodes" in decision.warnings[0]


@pytest.mark.parametrize(
    "pod",
    [
        _selecting([_need(MODE, "In", "cgpu")], selector={MODE: "share"}),
        _selecting([_need(POOL, "In", "a"), _need(POOL, "In", "b")]),
        _selecting([]),
        _selecting([_need(ZONE, "In", "a")], [_need(ZONE, "DoesNotExist")], selector={ZONE: "b"}),
    ],
)
def test_a_selection_that_no_node_could_ever_satisfy_contradicts_itself(pod: Json) -> None:
    decision = admit(pod, CGPU, SHARE)
    assert (decision.reason, decision.selector) == (Reason.CONTRADICTORY_SELECTION, ())
    assert "contradict" in decision.warnings[0]


@pytest.mark.parametrize(
    ("pod", "pool"),
    [
        (_selecting([_need(POOL, "NotIn", "training", "basic")]), "inference"),
        (_selecting([_need(MODE, "NotIn", "cgpu"), _need("cgpu", "NotIn", "true")]), "inference"),
        (_selecting([_need("cgpu", "NotIn", "true")]), "training"),
        (_selecting([_need(MODE, "DoesNotExist")]), "basic"),
        (_selecting([_need("cgpu", "DoesNotExist")]), "training"),
    ],
)
def test_to_avoid_a_pool_or_a_mode_leaves_the_choice_among_the_others(pod: Json, pool: str) -> None:
    decision = admit(pod, CGPU, SHARE, BASIC)
    assert decision.reason in (Reason.ROUTED, Reason.ROUTED_WITHOUT_ISOLATION)
    assert decision.pool == pool
    assert '"ExcludedByPod"' in decision.annotation


def test_a_pod_that_avoids_every_pool_is_told_so() -> None:
    decision = admit(_selecting([_need(POOL, "DoesNotExist")]), CGPU, SHARE)
    assert decision.reason is Reason.NO_ELIGIBLE_POOL
    assert "excludes its nodes" in decision.warnings[0]


def test_the_card_placement_is_no_choice_of_a_pool() -> None:
    pod = _selecting(selector={"ack.node.gpu.placement": "spread"})
    assert admit(pod, CGPU).pool == "training"
    packed = a_view("training", "cgpu", node_labels={"ack.node.gpu.placement": ("binpack",)})
    assert admit(pod, packed, SHARE).pool == "inference"


def test_a_selection_counts_more_than_the_annotation_that_contradicts_it() -> None:
    pod = _selecting(selector={POOL: "inference"})
    pod["metadata"]["annotations"] = {POOL: "training"}
    decision = admit(pod, CGPU, SHARE)
    assert (decision.reason, decision.selector) == (Reason.ALREADY_SELECTS, ())
    assert "is ignored" in decision.warnings[0]


def test_to_avoid_a_node_is_not_to_choose_one() -> None:
    pod = _selecting([_need("metadata.name", "NotIn", "gpu-1")], part="matchFields")
    assert admit(pod, CGPU).reason is Reason.ROUTED


def test_of_several_pools_that_all_misfit_each_says_why() -> None:
    pod = _selecting([_need(POOL, "In", "whole", "watching")])
    decision = admit(
        pod, a_view("whole", "default"), a_view("watching", closed=Reason.POOL_OBSERVES)
    )
    assert decision.reason is Reason.ALREADY_SELECTS
    (warning,) = decision.warnings
    assert "watching: reconcile is Observe" in warning
    assert "whole: mode default does not offer" in warning


@pytest.mark.parametrize("denies", [False, True])
def test_a_selection_that_is_too_long_to_read_leads_nowhere(denies: bool) -> None:
    pod = _selecting([_need("zone", "Exists")] * 1001)
    decision = admit(pod, CGPU, rules=Rules(denies=denies))
    assert (decision.reason, decision.is_refused) == (Reason.NO_ELIGIBLE_POOL, denies)
    assert "more than 1000 requirements" in decision.message
    assert bool(decision.warnings) is not denies


def test_a_pool_is_avoided_only_where_every_term_avoids_it() -> None:
    pod = _selecting([_need(POOL, "NotIn", "training")], [_need(MODE, "NotIn", "share")])
    assert admit(pod, CGPU).pool == "training"
