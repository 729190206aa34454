"""What the webhook writes into a pod, and that it touches nothing else."""

from collections.abc import Mapping

import jsonpatch
import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.k8s.pod_shape import MalformedPodError, Metadata, PodShape, Spec, parse_pod_shape
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.names import ANNOTATION_DECISION, Reason
from gpushare.webhook import patch as patch_module
from tests.kit.values.manifests import Json, build_gpu_pod
from tests.kit.values.pool_views import apply_decision

SPOT = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
GPU = {"key": "gpu", "operator": "Equal", "value": "true"}
POOL = {"gpushare.io/pool": "training"}


def build_decision(
    selector: Mapping[str, str] = POOL, tolerations: tuple[Json, ...] = (), annotation: str = ""
) -> AdmissionDecision:
    return AdmissionDecision(
        Reason.ROUTED, "", "training", tuple(selector.items()), tolerations, annotation
    )


ALL = build_decision({**POOL, "a~b/c": "d"}, (SPOT, GPU), '{"v":1}')

keys = st.text(max_size=8) | st.sampled_from(["a/b", "~", "~1", "gpushare.io/pool"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | keys,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=10,
)
READ = frozenset(
    field.encode_name
    for shape in (PodShape, Metadata, Spec)
    for field in msgspec.structs.fields(shape)
)
unknown = st.dictionaries(
    st.text(max_size=8).filter(lambda key: key not in READ), json_values, max_size=4
)
strings = st.none() | st.dictionaries(keys, st.text(max_size=8), max_size=3)
tolerations = st.none() | st.lists(st.sampled_from([SPOT, GPU, {"operator": "Exists"}]), max_size=3)


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """A pod of known and unknown fields; what may be absent or null is, at times."""
    pod: Json = draw(unknown)
    pod["metadata"], pod["spec"] = draw(unknown), draw(unknown)
    for part, key, values in (
        ("metadata", "annotations", strings),
        ("spec", "nodeSelector", strings),
        ("spec", "tolerations", tolerations),
    ):
        pod[part].pop(key, None)
        if draw(st.booleans()):
            pod[part][key] = draw(values)
    return pod


decisions = st.builds(
    build_decision,
    st.dictionaries(keys, st.text(max_size=8), max_size=3),
    st.lists(st.sampled_from([SPOT, GPU]), unique_by=str, max_size=2).map(tuple),
    st.sampled_from(["", '{"v":1}']),
)


def plan_patch(pod: Json, decision: AdmissionDecision) -> list[Json]:
    return patch_module.plan_patch(parse_pod_shape(pod), decision)


def apply(pod: Json, decision: AdmissionDecision) -> Json:
    """The pod that the API server makes of it."""
    patch = orjson.loads(orjson.dumps(plan_patch(pod, decision)))
    patched: Json = jsonpatch.apply_patch(pod, patch)
    return patched


def sort(pod: Json) -> bytes:
    """To the byte: Python takes 1, 1.0 and True for equal."""
    return orjson.dumps(pod, option=orjson.OPT_SORT_KEYS)


@given(pods(), decisions)
def test_a_patched_pod_differs_only_by_what_was_decided(
    pod: Json, decision: AdmissionDecision
) -> None:
    assert sort(apply(pod, decision)) == sort(apply_decision(pod, decision))


@given(pods(), decisions)
def test_a_patch_applied_twice_changes_nothing_more(pod: Json, decision: AdmissionDecision) -> None:
    once = apply(pod, decision)
    assert plan_patch(once, decision) == []


def test_into_what_is_there_only_what_is_missing_is_added() -> None:
    pod = build_gpu_pod(nodeSelector={"zone": "a"}, tolerations=[GPU])
    pod["metadata"]["annotations"] = {ANNOTATION_DECISION: "older"}
    assert plan_patch(pod, ALL) == [
        {"op": "add", "path": "/spec/nodeSelector/gpushare.io~1pool", "value": "training"},
        {"op": "add", "path": "/spec/nodeSelector/a~0b~1c", "value": "d"},
        {"op": "add", "path": "/spec/tolerations/-", "value": SPOT},
        {"op": "add", "path": "/metadata/annotations/gpushare.io~1decision", "value": '{"v":1}'},
    ]


@pytest.mark.parametrize("pod", [{"spec": {}}, {"metadata": {}}, {"metadata": {}, "spec": "none"}])
def test_what_has_no_place_for_a_decision_is_malformed(pod: Json) -> None:
    with pytest.raises(MalformedPodError):
        plan_patch(pod, ALL)


@pytest.mark.parametrize(("free", "is_noted"), [(0, True), (-1, False)])
def test_why_is_not_noted_where_the_annotations_leave_no_space_for_it(
    free: int, *, is_noted: bool
) -> None:
    decision = build_decision(annotation='{"v":1}')
    taken = len(ANNOTATION_DECISION) + len(decision.annotation) + len("template")
    value = "é" * ((patch_module.MAX_ANNOTATIONS_BYTES - taken) // 2)
    value += "x" * (patch_module.MAX_ANNOTATIONS_BYTES - taken - len(value.encode()) - free)
    pod = {"metadata": {"annotations": {"template": value}}, "spec": {}}
    patched = apply(pod, decision)
    assert patched["spec"]["nodeSelector"] == POOL
    assert (ANNOTATION_DECISION in patched["metadata"]["annotations"]) is is_noted
