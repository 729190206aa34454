"""What holds for any pod and any pools."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.namespace import Namespace
from gpushare.api.podrequest import parse_pod_request
from gpushare.api.pool import EDITION_SCHEDULES, Edition
from gpushare.core.admission import Decision, PoolView, Rules
from gpushare.core.modes import MODES
from gpushare.names import Reason
from tests.kit.values.manifests import CORE, MEMORY
from tests.kit.values.pool_views import HERE, Json, a_room, a_view, admit, apply_decision

POOL, MODE = "gpushare.io/pool", "ack.node.gpu.schedule"
NAMES = ("a", "b", "c", "d-" + "x" * 200)
ISOLATED = [mode.labels for mode in MODES.values() if mode.isolated]


def _need(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def _container(env: str = "", **asked: str) -> Json:
    resources = {"memory": MEMORY, "core": CORE, "whole": "nvidia.com/gpu"}
    limits = {resources[key]: amount for key, amount in asked.items()}
    variables = [{"name": env, "value": "1"}] if env else []
    return {"name": "main", "resources": {"limits": limits}, "env": variables}


CONTAINERS = (
    _container(memory="8"),
    _container(memory="3", core="30"),
    _container(memory="100"),
    _container(core="30"),
    _container(whole="1"),
    _container(memory="0"),
    _container(memory="8", env="CGPU_DISABLE"),
    _container(env="NVIDIA_VISIBLE_DEVICES"),
)
ANNOTATIONS: tuple[Json, ...] = (
    {},
    {POOL: "a"},
    {POOL: "\n" + "ü" * 300},
    {"gpushare.io/inject": "disabled"},
    {"gpushare.io/decision": '{"pool":"a"}'},
)
ISOLATIONS = ("", "required", "required", "none", "maybe")
SELECTORS = (None, {POOL: "a"}, {MODE: "cgpu"}, {MODE: "share", POOL: "b"}, {"zone": "x"})
REQUIREMENTS = (
    _need(POOL, "In", "a", "b"),
    _need(POOL, "NotIn", "a"),
    _need(POOL, "Exists"),
    _need(MODE, "NotIn", "cgpu"),
    _need(MODE, "In", "cgpu", "share"),
    _need("cgpu", "DoesNotExist"),
    _need(MODE, "Gt", "1"),
    _need("zone", "In", "x"),
    _need("kubernetes.io/hostname", "In", "gpu-1"),
)
LABELS: tuple[Json, ...] = (
    {},
    {"aliyun.com/gpu-count": "2"},
    {"aliyun.com/gpu-count": "x"},
    {"ack.gpushare.placement": "require-whole-device"},
)


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """Pods that are at odds with themselves more often than real ones."""
    annotations: Json = dict(draw(st.sampled_from(ANNOTATIONS)))
    if isolation := draw(st.sampled_from(ISOLATIONS)):
        annotations["gpushare.io/isolation"] = isolation
    spec: Json = {
        "containers": draw(st.lists(st.sampled_from(CONTAINERS), min_size=1, max_size=2)),
        "nodeSelector": draw(st.sampled_from(SELECTORS)),
        "schedulerName": draw(st.sampled_from([None, None, None, "x\n" * 300])),
    }
    if term := draw(st.lists(st.sampled_from(REQUIREMENTS), max_size=2)):
        terms = {"nodeSelectorTerms": [{"matchExpressions": [need]} for need in term]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"nodeAffinity": affinity}
    labels = draw(st.sampled_from(LABELS))
    return {"metadata": {"annotations": annotations, "labels": labels}, "spec": spec}


MODES_OF_EDITIONS = [
    (edition, schedule) for edition in Edition for schedule in EDITION_SCHEDULES[edition]
]
ROOMS = (None, a_room([]), a_room([(16, 2), (3, 4)]), a_room([(8, 2)], pending=60))
WORDS = ("", "", "is_leaving", "observes", "on_request", "selects_mode")


@st.composite
def views(draw: st.DrawFn) -> list[PoolView]:
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        edition, schedule = draw(st.sampled_from(MODES_OF_EDITIONS))
        word = draw(st.sampled_from(WORDS))
        more: Json = {word: True} if word else {}
        room, nodes = draw(st.sampled_from(ROOMS)), draw(st.sampled_from([None, 0, 3]))
        priority = draw(st.sampled_from([1, 100]))
        view = a_view(
            name, schedule, edition=edition, room=room, nodes=nodes, priority=priority, **more
        )
        found.append(view)
    return found


namespaces = st.sampled_from(
    [
        HERE,
        Namespace("team", {"gpushare.io/default-pool": "a"}),
        Namespace("team", {"gpushare.io/default-pool": NAMES[-1]}),
        Namespace("team", {"gpushare.io/on-no-pool": "deny"}),
    ]
)


def _selector(pod: Json, decision: Decision) -> Json:
    return dict(apply_decision(pod, decision)["spec"].get("nodeSelector") or {})


def _is_isolated(selector: Json) -> bool:
    return any(labels.items() <= selector.items() for labels in ISOLATED)


def _asks_for_share(pod: Json) -> bool:
    return any(
        container["resources"]["limits"].get(resource, "0") != "0"
        for container in pod["spec"]["containers"]
        for resource in (MEMORY, CORE)
    )


@given(pods(), views(), namespaces, st.randoms())
def test_the_order_of_the_pools_does_not_matter(
    pod: Json, pools: list[PoolView], namespace: Namespace, random: Any
) -> None:
    shuffled = list(pools)
    random.shuffle(shuffled)
    assert admit(pod, *pools, namespace=namespace) == admit(pod, *shuffled, namespace=namespace)


@given(pods(), views(), namespaces, st.booleans())
def test_required_isolation_ends_with_the_labels_of_an_isolated_mode_or_is_refused(
    pod: Json, pools: list[PoolView], namespace: Namespace, denies: bool
) -> None:
    decision = admit(pod, *pools, namespace=namespace, rules=Rules(denies=denies))
    required = pod["metadata"]["annotations"].get("gpushare.io/isolation") == "required"
    if required and _asks_for_share(pod) and not decision.is_refused:
        assert _is_isolated(_selector(pod, decision))


@given(pods(), views(), namespaces)
def test_a_pod_that_asks_for_shared_gpu_is_never_silently_left_alone(
    pod: Json, pools: list[PoolView], namespace: Namespace
) -> None:
    decision = admit(pod, *pools, namespace=namespace)
    answered = decision.pool or decision.warnings or decision.is_refused
    settled = {
        Reason.OPTED_OUT,
        Reason.ALREADY_SELECTS,
        Reason.ALREADY_ROUTED,
        Reason.NOT_ROUTED,
    }
    if parse_pod_request(pod).selection.chosen_keys:
        settled.add(Reason.OTHER_SCHEDULER)
    if _asks_for_share(pod) and decision.reason not in settled:
        assert answered


@given(pods(), views(), namespaces)
def test_what_is_said_is_short_enough_and_can_be_carried(
    pod: Json, pools: list[PoolView], namespace: Namespace
) -> None:
    decision = admit(pod, *pools, namespace=namespace)
    for warning in decision.warnings:
        assert len(warning.encode()) <= 256
        assert warning.isprintable()
    assert len(decision.message.encode()) <= 2500
    assert decision.message.isprintable()


@given(st.sets(st.text(min_size=1, max_size=253), min_size=1, max_size=60))
def test_the_annotation_is_json_of_at_most_a_kibibyte_whatever_the_pools_are_called(
    called: set[str],
) -> None:
    pod = {"spec": {"containers": [{"resources": {"limits": {MEMORY: "1"}}}]}}
    pools = [a_view(name, "share" if len(name) % 2 else "cgpu") for name in called]
    decision = admit(pod, *pools, namespace=HERE)
    assert len(decision.annotation.encode()) <= 1024
    written = orjson.loads(decision.annotation)
    listed = [name for names in written.get("lost", {}).values() for name in names]
    assert {written["pool"], *listed} <= called
    assert 1 + len(listed) + written.get("more", 0) == len(called)
