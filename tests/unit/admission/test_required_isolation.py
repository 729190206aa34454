"""A pod that requires isolation gets it, or is refused: on every path."""

from typing import Any

import pytest

from gpushare.api.k8s.namespace import Namespace
from gpushare.names import Reason
from tests.kit.values.manifests import build_affinity, build_container, build_pod
from tests.kit.values.pool_views import Json, a_view, admit, apply_decision
from tests.unit.admission.test_admission_decisions import CGPU, CORE_MEM, MPS, SHARE

MODE, POOL = "ack.node.gpu.schedule", "gpushare.io/pool"
VERIFIED = ("gpushare.io/isolation-verified", "true")


def _requiring(**more: Any) -> Json:
    annotations = {"gpushare.io/isolation": "required", **more.pop("annotations", {})}
    return build_pod("a", annotations=annotations, **more)


@pytest.mark.parametrize(
    ("edition", "labels"),
    [
        ("Professional", {MODE: "cgpu"}),
        ("Basic", {"cgpu": "true", "cgpu.disable.isolation": "false"}),
    ],
)
@pytest.mark.parametrize("selects_mode", [False, True])
def test_the_mode_is_selected_too_since_a_pool_may_be_half_way(
    edition: str, labels: dict[str, str], selects_mode: bool
) -> None:
    pool = a_view(edition=edition, selects_mode=selects_mode)
    decision = admit(_requiring(), SHARE, pool)
    assert decision.reason is Reason.ROUTED
    bound = labels | ({} if selects_mode else {POOL: "training"})
    assert dict(decision.selector) == bound | dict([VERIFIED])


@pytest.mark.parametrize(
    "pools", [(), (SHARE,), (MPS,), (CORE_MEM,), (a_view(closed=Reason.POOL_OBSERVES),)]
)
def test_without_a_pool_that_isolates_by_the_kernel_it_is_refused(pools: Any) -> None:
    decision = admit(_requiring(), *pools)
    assert (decision.reason, decision.is_refused) == (Reason.ISOLATION_UNAVAILABLE, True)
    assert "schedule cgpu" in decision.message


OPTED_OUT = {"gpushare.io/inject": "disabled"}
TO_TRAINING, TO_INFERENCE = (
    {"gpushare.io/decision": f'{{"pool":"{pool}"}}'} for pool in ("training", "inference")
)
WITHOUT = {
    "it opts out": _requiring(annotations=OPTED_OUT),
    "it asks for a pool that does not isolate": _requiring(annotations={POOL: "inference"}),
    "it asks for a pool that is not there": _requiring(annotations={POOL: "gone"}),
    "it says that it was routed, and selects something else": _requiring(
        annotations=TO_TRAINING, selects={"a": "b"}, schedulerName="volcano"
    ),
    "it names its node": _requiring(nodeName="gpu-1"),
    "another scheduler places it": _requiring(schedulerName="volcano"),
    "it selects a pool that does not isolate": _requiring(selects={POOL: "inference"}),
    "it selects a pool that is not there": _requiring(selects={POOL: "gone"}),
    "it selects mps": _requiring(selects={MODE: "mps"}),
    "it selects share": _requiring(selects={"cgpu": "true", "cgpu.disable.isolation": "true"}),
    "it selects half a mode": _requiring(selects={"cgpu": "true"}),
    "it selects pools by affinity": _requiring(affinity=build_affinity(POOL)),
    "a DaemonSet places it": _requiring(owner="DaemonSet"),
    "a forged decision": _requiring(annotations=TO_INFERENCE, selects={POOL: "inference"}),
    "it selects unverified nodes": _requiring(selects={MODE: "cgpu", VERIFIED[0]: "false"}),
    "it selects nodes of which nothing is verified": _requiring(
        selects={MODE: "cgpu", VERIFIED[0]: ""}
    ),
    # It is left as it is, so it must say itself that its node must be verified.
    "it opts out and does not say": _requiring(selects={MODE: "cgpu"}, annotations=OPTED_OUT),
}


@pytest.mark.parametrize("pod", WITHOUT.values(), ids=WITHOUT.keys())
def test_a_pod_that_would_or_could_run_without_isolation_is_refused_whoever_places_it(
    pod: Json,
) -> None:
    decision = admit(pod, CGPU, SHARE, MPS)
    assert (decision.reason, decision.is_refused) == (Reason.ISOLATION_UNAVAILABLE, True)
    assert "gpushare.io/isolation" in decision.message


def _turned_off(selects: dict[str, str] | None = None, **variable: Any) -> Json:
    pod = _requiring(selects=selects)
    off = build_container("b", memory="1") | {"env": [{"name": "CGPU_DISABLE", **variable}]}
    pod["spec"]["containers"].append(off)
    return pod


@pytest.mark.parametrize(
    "pod",
    [
        _turned_off(value="1"),
        _turned_off(value="1", selects={MODE: "cgpu"}),
        # Values that are only known when the container starts.
        _turned_off(value="$(SWITCH)"),
        _turned_off(valueFrom={"configMapKeyRef": {"name": "settings", "key": "cgpu"}}),
    ],
)
def test_a_container_that_turns_isolation_off_or_may_do_so_contradicts_it(pod: Json) -> None:
    decision = admit(pod, CGPU)
    assert (decision.reason, decision.is_refused) == (Reason.ISOLATION_UNAVAILABLE, True)
    assert "CGPU_DISABLE" in decision.message


@pytest.mark.parametrize(
    "selector", [{MODE: "cgpu"}, {MODE: "core_mem"},
                 {"cgpu": "true", "cgpu.disable.isolation": "false"}],
)  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"nodeName": "gpu-1"}, {"schedulerName": "volcano"}])
def test_a_pod_that_selects_an_isolated_mode_itself_goes_its_way_where_that_is_verified(
    selector: dict[str, str], more: Json
) -> None:
    decision = admit(_requiring(selects=selector, **more), CGPU, SHARE)
    assert (decision.is_refused, decision.selector) == (False, (VERIFIED,))
    whole = {**selector, **dict([VERIFIED])}
    decision = admit(_requiring(selects=whole, **more), CGPU, SHARE)
    assert (decision.is_refused, decision.selector) == (False, ())


def test_a_pod_that_opts_out_and_says_itself_that_it_must_be_verified_is_left_as_it_is() -> None:
    selects = {MODE: "cgpu", **dict([VERIFIED])}
    pod = _requiring(selects=selects, annotations=OPTED_OUT)
    decision = admit(pod, CGPU)
    assert (decision.is_refused, decision.selector) == (False, ())


def test_the_mode_is_added_to_a_selection_of_a_pool_that_isolates() -> None:
    decision = admit(_requiring(selects={POOL: "training"}), CGPU, SHARE)
    assert decision.reason is Reason.ALREADY_SELECTS
    assert decision.selector == ((MODE, "cgpu"), VERIFIED)


def test_of_several_pools_that_a_pod_selects_one_that_isolates_gives_the_mode() -> None:
    in_any = {"key": POOL, "operator": "In", "values": ["inference", "training"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [in_any]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    decision = admit(_requiring(affinity=affinity), SHARE, CGPU)
    assert decision.selector == ((MODE, "cgpu"), VERIFIED)


def test_cores_are_isolated_by_core_mem() -> None:
    assert admit(_requiring(core=30), CGPU, CORE_MEM).pool == "slices"


def test_a_namespace_that_opts_out_is_no_way_around_it() -> None:
    namespace = Namespace("team", OPTED_OUT)
    assert admit(_requiring(), CGPU, namespace=namespace).is_refused


def test_a_pod_that_was_routed_keeps_its_isolation_when_it_comes_again() -> None:
    pod = _requiring()
    again = admit(apply_decision(pod, admit(pod, CGPU, SHARE)), CGPU, SHARE)
    assert (again.reason, again.is_refused) == (Reason.ALREADY_ROUTED, False)
