"""Where each pod ends, by the rule that decides."""

from typing import Any

import pytest

from gpushare.api.k8s.namespace import Namespace
from gpushare.api.selector import LabelSelector
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import Rules
from gpushare.names import Reason
from tests.kit.values.manifests import (
    build_affinity,
    build_container,
    build_pod,
    build_whole_card_pod,
)
from tests.kit.values.pool_views import Json, a_view, admit, apply_decision

SHARE = a_view("inference", "share")
CGPU = a_view("training", "cgpu")
MPS = a_view("streams", "mps")
CORE_MEM = a_view("slices", "core_mem")
WHOLE = a_view("whole", "default", priority=1000)
TOPOLOGY = a_view("nvlink", "topology", priority=1000)
ALL = (SHARE, CGPU, MPS, CORE_MEM, WHOLE, TOPOLOGY)

OFF = {"CGPU_DISABLE": "true"}
PLAIN = build_pod("a")
UNISOLATED = build_pod("a", env=OFF)
WITH_CORE = build_pod("a", core=30)
UNWANTED = build_pod("a", annotations={"gpushare.io/isolation": "none"})


def _asking(pool: str, **more: Any) -> Json:
    return build_pod("a", annotations={"gpushare.io/pool": pool}, **more)


@pytest.mark.parametrize(
    ("pod", "pools", "reason", "chosen"),
    [
        (PLAIN, ALL, Reason.ROUTED, {CGPU, MPS}),
        (PLAIN, (SHARE, MPS), Reason.ROUTED, {MPS}),
        (PLAIN, (SHARE, CORE_MEM), Reason.ROUTED_WITHOUT_ISOLATION, {SHARE}),
        (PLAIN, (CORE_MEM, WHOLE, TOPOLOGY), Reason.NO_ELIGIBLE_POOL, {None}),
        (PLAIN, (), Reason.NO_ELIGIBLE_POOL, {None}),
        (UNISOLATED, ALL, Reason.ROUTED, {SHARE}),
        (UNISOLATED, (CGPU,), Reason.ROUTED, {CGPU}),
        (WITH_CORE, ALL, Reason.ROUTED, {CORE_MEM}),
        (WITH_CORE, (SHARE, CGPU), Reason.NO_ELIGIBLE_POOL, {None}),
        (UNWANTED, ALL, Reason.ROUTED, {SHARE}),
        (UNWANTED, (CGPU, MPS), Reason.NO_ELIGIBLE_POOL, {None}),
        (build_pod("a", gib=None, core=30), ALL, Reason.ROUTED, {CORE_MEM}),
    ],
)
def test_the_resources_and_the_isolation_give_the_mode(
    pod: Json, pools: tuple[PoolView, ...], reason: Reason, chosen: set[PoolView | None]
) -> None:
    decision = admit(pod, *pools)
    assert decision.reason is reason
    assert decision.pool in {pool and pool.name for pool in chosen}


def test_a_pod_that_no_card_can_take_holds_no_room() -> None:
    asks_for_pool = {"gpushare.io/pool": "training"}
    decision = admit(build_pod("a", gib=9_999_999, annotations=asks_for_pool), a_view())
    assert (decision.reason, decision.reserved) == (Reason.ROUTED_ON_REQUEST, 0)


@pytest.mark.parametrize(
    "pod",
    [
        build_pod("a", gib=None),
        build_pod("a", gib=None, env={"NVIDIA_VISIBLE_DEVICES": "none"}),
        build_pod("a", gib=None, env={"NVIDIA_VISIBLE_DEVICES": "void"}),
        build_pod("a", gib=None, env={"NVIDIA_VISIBLE_DEVICES": ""}),
        build_whole_card_pod("a"),
        build_whole_card_pod("a", env={"NVIDIA_VISIBLE_DEVICES": "all"}),
    ],
)
def test_a_pod_that_asks_for_no_shared_gpu_is_left_alone(pod: Json) -> None:
    decision = admit(pod, CGPU, WHOLE)
    assert decision.reason is Reason.NO_GPU_REQUEST
    assert (decision.annotation, decision.warnings) == ("", ())


@pytest.mark.parametrize("env", [OFF, {"NVIDIA_VISIBLE_DEVICES": "all"}])
def test_a_gpu_variable_without_a_request_is_unaccounted(env: dict[str, str]) -> None:
    decision = admit(build_pod("a", gib=None, env=env), CGPU)
    assert (decision.reason, decision.annotation) == (Reason.UNACCOUNTED_GPU, "")
    assert "sees every card" in decision.warnings[0]


def test_a_pool_asked_for_without_any_gpu_draws_a_warning() -> None:
    decision = admit(_asking("training", gib=None), CGPU)
    assert decision.reason is Reason.NO_GPU_REQUEST
    assert "has no effect" in decision.warnings[0]


@pytest.mark.parametrize("by", ["pod", "namespace"])
def test_who_opts_out_is_left_alone(by: str) -> None:
    disabled = {"gpushare.io/inject": "disabled"}
    pod = build_pod("a", annotations=disabled if by == "pod" else {})
    namespace = Namespace("default", disabled if by == "namespace" else {})
    decision = admit(pod, CGPU, namespace=namespace)
    assert (decision.reason, decision.annotation, decision.warnings) == (Reason.OPTED_OUT, "", ())


TO_A_NODE = build_affinity("metadata.name", part="matchFields")


@pytest.mark.parametrize(
    ("kind", "pod"),
    [
        ("DaemonSet", build_pod("a", owner="DaemonSet")),
        ("nodeName", build_pod("a", nodeName="gpu-1")),
        ("by name", build_pod("a", affinity=TO_A_NODE)),
        ("Kueue", build_pod("a", labels={"kueue.x-k8s.io/queue-name": "team-a"})),
    ],
)
def test_what_others_place_is_left_to_them_and_who_created_it_learns_so(
    kind: str, pod: Json
) -> None:
    decision = admit(pod, CGPU)
    assert (decision.reason, decision.selector) == (Reason.NOT_ROUTED, ())
    assert kind in decision.warnings[0]


@pytest.mark.parametrize(
    ("placed", "reason"),
    [
        ({"owner": "DaemonSet"}, Reason.NOT_ROUTED),
        ({"schedulerName": "volcano"}, Reason.OTHER_SCHEDULER),
    ],
)
def test_what_others_place_draws_no_warning_where_it_selects_a_pool(
    placed: Json, reason: Reason
) -> None:
    pod = build_pod("a", selects={"gpushare.io/pool": "training"}, **placed)
    decision = admit(pod, CGPU)
    assert (decision.reason, decision.warnings) == (reason, ())


def test_another_schedulers_pod_is_left_to_it_unless_the_installation_names_that_one() -> None:
    pod = build_pod("a", schedulerName="volcano")
    decision = admit(pod, CGPU)
    assert (decision.reason, decision.selector) == (Reason.OTHER_SCHEDULER, ())
    assert "Set schedulerName: default-scheduler" in decision.warnings[0]
    unknown = admit(build_pod("a", schedulerName="koord-scheduler"), CGPU)
    assert "add it to the chart's webhook.schedulers" in unknown.warnings[0]
    assert admit(pod, CGPU, rules=Rules(schedulers=frozenset({"volcano"}))).pool == "training"


def test_a_gate_of_anybody_but_kueue_does_not_keep_a_pod_from_being_routed() -> None:
    assert admit(build_pod("a", schedulingGates=[{"name": "example.com/wait"}]), CGPU).pool
    kueue = build_pod("a", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    assert admit(kueue, CGPU).reason is Reason.NOT_ROUTED


def test_a_pod_that_kueue_holds_back_after_it_got_its_pool_keeps_it_with_a_warning() -> None:
    """Kueue names its queue `default` on pods without one, after our webhook was called."""
    first = admit(PLAIN, CGPU)
    held = build_pod(
        "a",
        selects=dict(first.selector),
        annotations={"gpushare.io/decision": first.annotation},
        labels={"kueue.x-k8s.io/queue-name": "default"},
        schedulingGates=[{"name": "kueue.x-k8s.io/admission"}],
    )
    decision = admit(held, CGPU)
    assert (decision.reason, decision.annotation) == (Reason.ALREADY_ROUTED, "")
    (warning,) = decision.warnings
    for part in ("pool training", "flavor", "kueue.x-k8s.io/queue-name"):
        assert part in warning
    # With the selector of another the annotation proves nothing.
    held["spec"]["nodeSelector"] = {"gpushare.io/pool": "other"}
    assert admit(held, CGPU).reason is Reason.NOT_ROUTED


def test_the_pool_that_a_pod_asks_for_gets_it_though_it_takes_only_who_asks() -> None:
    asked = a_view("inference", "share", on_request=True)
    decision = admit(_asking("inference"), CGPU, asked)
    assert (decision.reason, decision.pool) == (Reason.ROUTED_ON_REQUEST, "inference")
    assert '"OnRequestOnly":["inference"]' in admit(PLAIN, CGPU, asked).annotation


TEAM_A = LabelSelector(match_labels={"team": "a"})


@pytest.mark.parametrize(
    ("pool", "reason", "words"),
    [
        (a_view(closed=Reason.POOL_DELETING), "PoolDeleting", "being deleted"),
        (a_view(closed=Reason.POOL_OBSERVES), "PoolObserves", "Observe"),
        (a_view(schedule="default"), "OtherMode", "default does not offer aliyun.com/gpu-mem"),
        (a_view(namespace_selector=TEAM_A), "NamespaceNotSelected", "namespace default"),
        (a_view(pod_selector=TEAM_A), "PodNotSelected", "podSelector"),
    ],
)
def test_a_pool_that_cannot_take_a_pod_loses_it_and_who_asked_for_that_pool_learns_why(
    pool: PoolView, reason: str, words: str
) -> None:
    decision = admit(PLAIN, SHARE, pool)
    assert decision.pool == "inference"
    assert f'"{reason}":["training"]' in decision.annotation
    decision = admit(_asking("training"), pool, SHARE)
    assert (decision.reason, decision.pool) == (Reason.REQUESTED_POOL_UNAVAILABLE, None)
    assert words in decision.warnings[0]


def test_a_pod_that_asks_for_a_pool_that_is_not_there_gets_no_other() -> None:
    decision = admit(_asking("training"), a_view("other"), SHARE)
    assert (decision.reason, decision.pool) == (Reason.REQUESTED_POOL_UNAVAILABLE, None)
    assert "does not exist" in decision.warnings[0]


@pytest.mark.parametrize(
    ("resource", "pool"), [("nvidia.com/gpu", "whole"), ("aliyun.com/gpu", "nvlink")]
)
def test_a_whole_card_pod_is_sent_only_where_it_asks_to_go(resource: str, pool: str) -> None:
    pod = _asking(pool, gib=None)
    pod["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    decision = admit(pod, *ALL)
    assert (decision.reason, decision.pool, decision.reserved) == (
        Reason.ROUTED_ON_REQUEST,
        pool,
        0,
    )
    pod["metadata"]["annotations"]["gpushare.io/pool"] = "training"
    assert admit(pod, *ALL).reason is Reason.REQUESTED_POOL_UNAVAILABLE


def test_whole_cards_need_no_isolation() -> None:
    asks = {"gpushare.io/isolation": "required", "gpushare.io/pool": "whole"}
    decision = admit(build_whole_card_pod("a", annotations=asks), WHOLE)
    assert decision.reason is Reason.ROUTED_ON_REQUEST


OF_INFERENCE = Namespace("team", {"gpushare.io/default-pool": "inference"})


def test_the_pool_of_its_namespace_counts_as_asked_for_where_the_pod_asks_for_none() -> None:
    asked = a_view("inference", "share", on_request=True)
    decision = admit(PLAIN, CGPU, asked, namespace=OF_INFERENCE)
    assert (decision.reason, decision.pool) == (Reason.ROUTED_BY_NAMESPACE, "inference")
    assert decision.warnings == ()
    assert admit(_asking("training"), CGPU, asked, namespace=OF_INFERENCE).pool == "training"


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ((CGPU,), "does not exist"),
        ((CGPU, a_view("inference", "core_mem")), "requires aliyun.com/gpu-core"),
    ],
)
def test_where_its_namespaces_pool_cannot_take_it_another_does_and_the_warning_says_why(
    pools: tuple[PoolView, ...], words: str
) -> None:
    decision = admit(PLAIN, *pools, namespace=OF_INFERENCE)
    assert (decision.reason, decision.pool) == (Reason.ROUTED, "training")
    assert words in decision.warnings[0]


@pytest.mark.parametrize(
    ("label", "is_refused", "is_refused_by_an_installation_that_denies"),
    [("", False, True), ("deny", True, True), ("allow", False, False), ("Deny", False, True)],
)
@pytest.mark.parametrize("pod", [PLAIN, _asking("gone")])
def test_a_pod_that_no_pool_takes_is_refused_where_its_namespace_or_the_installation_says_so(
    pod: Json, label: str, is_refused: bool, is_refused_by_an_installation_that_denies: bool
) -> None:
    namespace = Namespace("team", {"gpushare.io/on-no-pool": label} if label else {})
    decision = admit(pod, WHOLE, namespace=namespace)
    assert decision.is_refused is is_refused
    assert decision.warnings or is_refused
    decision = admit(pod, WHOLE, namespace=namespace, rules=Rules(denies=True))
    assert decision.is_refused is is_refused_by_an_installation_that_denies


def _asking_for_both() -> Json:
    pod = build_pod("a")
    pod["spec"]["containers"].append(build_container("b"))
    pod["spec"]["containers"][1]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    return pod


@pytest.mark.parametrize(
    ("pod", "advice"),
    [
        (WITH_CORE, "schedule core_mem"),
        (UNWANTED, "schedule share"),
        (
            build_pod("a", core=30, annotations={"gpushare.io/isolation": "none"}),
            "requires isolation",
        ),
        (_asking_for_both(), "No node offers both"),
    ],
)
def test_the_advice_is_a_mode_that_would_take_the_pod_if_any(pod: Json, advice: str) -> None:
    decision = admit(pod, WHOLE)
    assert decision.reason is Reason.NO_ELIGIBLE_POOL
    assert advice in decision.message


def test_a_routed_pod_that_came_to_ask_for_more_than_its_pool_gives_is_told_so() -> None:
    written = apply_decision(build_pod("a", core=30), admit(PLAIN, CGPU))
    again = admit(written, CGPU)
    assert again.reason is Reason.ALREADY_SELECTS
    assert "does not offer" in again.warnings[0]


@pytest.mark.parametrize(
    "annotation", ['{"pool":"training"}', '{"pool":["training"]}', "[]", "{", '{"pool":"gone"}']
)
def test_our_annotation_alone_is_worth_nothing(annotation: str) -> None:
    pod = build_pod("a", annotations={"gpushare.io/decision": annotation})
    assert admit(pod, SHARE, CGPU).reason is Reason.ROUTED


def test_a_routed_pod_selects_its_pool_and_tolerates_its_taints() -> None:
    taint = {"key": "gpu", "operator": "Exists"}
    decision = admit(PLAIN, a_view(tolerations=(taint,)))
    assert decision.selector == (("gpushare.io/pool", "training"),)
    assert decision.tolerations == (taint,)
    assert decision.reserved == 3


def test_selectors_see_the_labels_of_the_namespace_and_of_the_pod() -> None:
    pod = build_pod("a", labels={"team": "a"})
    pool = a_view(namespace_selector=TEAM_A, pod_selector=TEAM_A)
    assert admit(pod, pool, namespace=Namespace("default", {"team": "a"})).pool == "training"
