"""A pod goes only where one of the pool's nodes can take it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.pool_view import MOST_REQUIREMENTS, PoolView, view_pool
from gpushare.core.admission.request import Rules
from gpushare.names import Reason
from tests.kit.values.manifests import build_pod, build_pool
from tests.kit.values.pool_views import CARD, Json, a_labelled_view, a_room, a_view, admit

ZONE, MODEL, TEAM = "topology.kubernetes.io/zone", "aliyun.accelerator/nvidia_name", "team"
V100 = a_labelled_view("v100", {MODEL: "V100", ZONE: "a"}, {MODEL: "V100", ZONE: "b"})
T4 = a_labelled_view("t4", {MODEL: "T4", ZONE: "a"}, priority=500)
GROWING = a_labelled_view("growing", {MODEL: "A10", ZONE: "a"}, is_open=True)


def _need(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def _pod(*terms: list[Json], selector: Json | None = None, annotations: Json | None = None) -> Json:
    spec: dict[str, Any] = {"nodeSelector": selector} if selector else {}
    if terms:
        required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        spec["affinity"] = {"nodeAffinity": affinity}
    return build_pod("a", annotations=annotations or {}, **spec)


def _lost(decision: AdmissionDecision) -> dict[str, list[str]]:
    lost: dict[str, list[str]] = json.loads(decision.annotation).get("lost", {})
    return lost


@pytest.mark.parametrize(
    "pod",
    [
        _pod(selector={MODEL: "V100"}),
        _pod(selector={MODEL: "V100", ZONE: "b"}),
        _pod([_need(MODEL, "In", "V100", "H20")]),
        _pod([_need(MODEL, "NotIn", "T4")]),
        _pod([_need(MODEL, "In", "H20")], [_need(ZONE, "In", "b")]),
    ],
)
def test_a_pod_gets_the_pool_that_has_its_card_model_or_zone_though_another_ranks_first(
    pod: Json,
) -> None:
    decision = admit(pod, V100, T4)
    assert (decision.pool, decision.warnings) == ("v100", ())
    assert _lost(decision) == {Reason.EXCLUDED_BY_POD: ["t4"]}


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (_pod(selector={ZONE: "z"}), ("have topology.kubernetes.io/zone a, not z",)),
        (_pod([_need(MODEL, "In", "H20")]), (f"have {MODEL} T4", "affinity excludes")),
        (_pod(selector={"accelerator": "x"}), ("have no label accelerator",)),
    ],
)
def test_a_pod_that_no_node_matches_gets_no_pool_and_learns_which_key_and_what_nodes_have(
    pod: Json, words: tuple[str, ...]
) -> None:
    pools = [
        a_labelled_view(view.name, *view.combinations, keys=("accelerator",)) for view in (V100, T4)
    ]
    decision = admit(pod, *pools)
    assert (decision.pool, decision.reason) == (None, Reason.NO_ELIGIBLE_POOL)
    assert _lost(decision) == {Reason.EXCLUDED_BY_POD: ["t4", "v100"]}
    for word in (*words, "spec.nodes.scaling"):
        assert word in decision.warnings[0]
    denied = admit(pod, *pools, rules=Rules(denies=True))
    assert denied.is_refused
    assert ZONE not in str(denied.selector)


def test_labels_must_be_on_one_node_together() -> None:
    mixed = a_labelled_view("mixed", {MODEL: "V100", ZONE: "a"}, {MODEL: "T4", ZONE: "b"})
    decision = admit(_pod(selector={MODEL: "V100", ZONE: "b"}), mixed)
    assert (decision.pool, decision.reason) == (None, Reason.NO_ELIGIBLE_POOL)
    assert "none of its nodes has all labels" in decision.message


@pytest.mark.parametrize(
    "pool",
    [
        a_view("unknown", nodes=0, room=None),
        a_view("unknown"),
        a_labelled_view("unknown", {ZONE: "a"}, is_open=True),
    ],
    ids=["no node yet", "nothing published", "others may be added"],
)
def test_a_pool_whose_nodes_may_match_is_not_excluded_and_that_is_said(pool: PoolView) -> None:
    decision = admit(_pod(selector={ZONE: "z"}), pool)
    assert decision.pool == "unknown"
    assert any(ZONE in warning and "known" in warning for warning in decision.warnings)


def test_a_pool_that_is_known_to_match_goes_before_others_with_room_and_priority() -> None:
    full = a_labelled_view("full", {ZONE: "b"}, room=a_room([]), priority=1)
    decision = admit(_pod(selector={ZONE: "b"}), full, GROWING)
    assert decision.pool == "full"
    assert _lost(decision) == {Reason.NODE_LABELS_UNKNOWN: ["growing"]}


def test_isolation_goes_before_what_is_known_of_labels() -> None:
    shared = a_labelled_view("shared", {ZONE: "b"}, schedule="share")
    assert admit(_pod(selector={ZONE: "b"}), shared, GROWING).pool == "growing"


def test_a_pool_that_matches_and_has_no_card_so_large_goes_after_one_that_may_match() -> None:
    small = a_labelled_view("small", {ZONE: "b"})
    pod = build_pod("a", gib=CARD + 1, nodeSelector={ZONE: "b"})
    large = a_labelled_view("large", {ZONE: "a"}, is_open=True, room=None)
    assert admit(pod, small, large).pool == "large"


def test_a_label_that_no_pool_publishes_excludes_none_and_is_named_with_the_remedy() -> None:
    decision = admit(_pod(selector={TEAM: "x", MODEL: "V100"}), V100, T4)
    assert (decision.pool, _lost(decision)) == ("v100", {Reason.EXCLUDED_BY_POD: ["t4"]})
    (warning,) = decision.warnings
    for word in (TEAM, names.LABEL_POOL, "ResourceFlavor", "nodeLabelKeys"):
        assert word in warning


def test_a_label_that_a_pools_spec_fixes_is_known_of_all_its_nodes() -> None:
    team = a_labelled_view("mine", {ZONE: "a"}, node_labels={TEAM: ("x",)})
    decision = admit(_pod(selector={TEAM: "x"}), team, T4)
    assert (decision.pool, decision.warnings) == ("mine", ())
    assert _lost(decision) == {Reason.NODE_LABELS_UNKNOWN: ["t4"]}
    others = a_labelled_view("others", {ZONE: "a"}, is_open=True, node_labels={TEAM: ("y",)})
    assert admit(_pod(selector={TEAM: "x"}), others).reason is Reason.NO_ELIGIBLE_POOL


def test_a_long_affinity_is_not_compared_with_what_pools_publish() -> None:
    terms = [[_need(ZONE, "In", f"z{number}")] for number in range(MOST_REQUIREMENTS + 1)]
    assert admit(_pod(*terms), V100).pool == "v100"
    assert admit(_pod(*terms[1:]), V100).pool is None


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", TEAM, "node-role"])
def test_to_avoid_a_node_or_a_label_that_is_not_known_draws_no_warning(key: str) -> None:
    avoids = _need(key, "NotIn", "bad")
    for pod in (_pod([avoids]), _pod([avoids, _need(MODEL, "In", "V100")])):
        decision = admit(pod, V100)
        assert (decision.pool, decision.warnings) == ("v100", ())


def test_to_avoid_a_node_by_name_leaves_the_pools_that_match_first() -> None:
    pod = _pod([_need("kubernetes.io/hostname", "NotIn", "bad")], selector={ZONE: "b"})
    assert admit(pod, V100, replace(GROWING, priority=900)).pool == "v100"


def test_a_pool_that_is_asked_for_by_name_is_not_assigned_where_none_of_its_nodes_matches() -> None:
    pod = _pod(annotations={names.ANNOTATION_POOL: "t4"}, selector={ZONE: "b"})
    decision = admit(pod, V100, T4)
    assert (decision.pool, decision.reason) == (None, Reason.REQUESTED_POOL_UNAVAILABLE)
    assert f"have {ZONE} a" in decision.warnings[0]


def test_a_namespaces_default_pool_is_passed_over_where_none_of_its_nodes_matches() -> None:
    namespace = Namespace("default", {names.LABEL_DEFAULT_POOL: "t4"})
    decision = admit(_pod(selector={ZONE: "b"}), V100, T4, namespace=namespace)
    assert decision.pool == "v100"
    assert f"have {ZONE} a" in decision.warnings[0]


def test_a_pod_that_selects_a_pool_is_told_where_none_of_its_nodes_matches() -> None:
    decision = admit(_pod(selector={names.LABEL_POOL: "t4", ZONE: "b"}), V100, T4)
    assert (decision.reason, decision.selector) == (Reason.ALREADY_SELECTS, ())
    assert "Pool t4" in decision.warnings[0]
    assert f"have {ZONE} a" in decision.warnings[0]
    assert admit(_pod(selector={names.LABEL_POOL: "t4", ZONE: "a"}), V100, T4).warnings == ()


def test_a_pod_that_selects_a_pool_whose_nodes_may_match_is_told_so() -> None:
    (warning,) = admit(_pod(selector={names.LABEL_POOL: "growing", ZONE: "b"}), GROWING).warnings
    assert ZONE in warning


def test_a_pod_that_comes_again_is_told_where_its_pools_nodes_match_no_more() -> None:
    annotations = {names.ANNOTATION_DECISION: '{"v":1,"reason":"Routed","pool":"t4"}'}
    again = _pod(annotations=annotations, selector={names.LABEL_POOL: "t4", ZONE: "a"})
    assert admit(again, T4).reason is Reason.ALREADY_ROUTED
    moved = _pod(annotations=annotations, selector={names.LABEL_POOL: "t4", ZONE: "b"})
    assert f"have {ZONE} a" in admit(moved, T4).warnings[0]


STATUS: Json = {
    "observedGeneration": 1,
    "nodes": {"matched": 1},
    "nodeLabels": {"keys": [ZONE], "combinations": [{"nodes": 1, "labels": {ZONE: "a"}}]},
}


@pytest.mark.parametrize(
    ("nodes", "status", "generation", "is_excluded"),
    [
        ({}, {}, 1, True),
        ({"scaling": "Fixed"}, {}, 1, True),
        ({"scaling": "Autoscaled"}, {}, 1, False),
        ({}, {}, 2, False),
        ({}, {"nodeLabels": {**STATUS["nodeLabels"], "more": 3}}, 1, False),
        ({}, {"nodeLabels": None}, 1, False),
    ],
    ids=["by default", "fixed", "autoscaled", "of a former spec", "more", "not published"],
)
def test_which_pools_a_label_of_no_published_node_excludes(
    nodes: Json, status: Json, generation: int, is_excluded: bool
) -> None:
    pool = build_pool(schedule="cgpu", nodes={"names": ["gpu-1"], **nodes})
    pool["metadata"]["generation"] = generation
    view = view_pool({**pool, "status": {**STATUS, **status}})
    assert view is not None
    assert (admit(_pod(selector={ZONE: "b"}), view).pool is None) is is_excluded
    if "nodeLabels" not in status:
        assert admit(_pod(selector={ZONE: "a"}), view).warnings == (
            "The pod may stay pending in pool training: its free memory is not known yet",
        )


@pytest.mark.parametrize(("ready", "is_open"), [(1, True), (2, False)])
def test_labels_that_follow_the_mode_are_not_known_while_it_changes(
    ready: int, is_open: bool
) -> None:
    pool = build_pool(edition="NVIDIA", nvidia={"config": "slices-4"})
    del pool["spec"]["schedule"]
    view = view_pool({**pool, "status": {**STATUS, "nodes": {"matched": 2, "ready": ready}}})
    assert view is not None
    assert view.is_open is is_open


def test_a_label_that_a_tool_wrote_on_a_kueue_flavor_is_named() -> None:
    """Helm labels what it manages, and Kueue once took that for labels of nodes."""
    decision = admit(_job(labels={}, selects={"app.kubernetes.io/managed-by": "Helm"}), V100)
    assert "app.kubernetes.io/managed-by" in decision.warnings[-1]
    assert "ResourceFlavor" in decision.warnings[-1]


@pytest.mark.parametrize(("pool", "is_sent"), [("gpu", True), ("cpu", False)])
def test_a_pool_that_scales_from_zero_is_known_by_what_its_selector_says(
    pool: str, is_sent: bool
) -> None:
    agent = "kubernetes.azure.com/agentpool"
    nodes = {"selector": {"matchLabels": {agent: "gpu"}}}
    view = view_pool({**build_pool(schedule="cgpu", nodes=nodes), "status": {}})
    assert view is not None
    decision = admit(_pod(selector={agent: pool}), replace(view, nodes=0))
    assert (decision.pool is not None) is is_sent


def test_a_pod_that_wants_no_zone_is_told_that_the_pools_nodes_have_one() -> None:
    decision = admit(_pod([_need(ZONE, "DoesNotExist")]), T4)
    assert decision.reason is Reason.NO_ELIGIBLE_POOL
    assert f"have {ZONE} a" in decision.warnings[0]


def test_terms_of_an_affinity_are_alternatives_of_which_one_must_match() -> None:
    terms = [_need("foo", "In", "bar")], [_need(ZONE, "In", "b")]
    assert admit(_pod(*terms), V100, T4).pool == "v100"
    assert admit(_pod([_need(ZONE, "In", "z")], [_need(MODEL, "In", "T4")]), V100, T4).pool == "t4"


def _job(*, labels: Json, **spec: Any) -> Json:
    pod = build_pod("a", **spec)
    pod["metadata"] |= {"labels": labels, "ownerReferences": [{"kind": "Job", "controller": True}]}
    return pod


def test_pods_of_a_job_that_kueue_admitted_get_a_pool_by_the_flavors_labels() -> None:
    admitted = dict.fromkeys(names.KUEUE_ADMITTED_LABELS, "x")
    for labels in ({}, admitted, {names.LABEL_KUEUE_QUEUE: "q"}):
        assert admit(_job(labels=labels, nodeSelector={MODEL: "V100"}), V100, T4).pool == "v100"
    held = _job(labels=admitted, schedulingGates=[{"name": "kueue.x-k8s.io/topology"}])
    assert admit(held, V100, T4).reason is Reason.NOT_ROUTED


def test_a_job_that_waits_for_kueue_is_told_that_its_flavor_may_choose_another_pool() -> None:
    decision = admit(_job(labels={names.LABEL_KUEUE_QUEUE: "q"}), V100, T4)
    assert decision.pool == "t4"
    assert "ResourceFlavor" in decision.warnings[-1]
