"""What holds of any manifest: migrated once is migrated; what has no GPU is not touched; and the
webhook takes what comes out."""

import json
from copy import deepcopy
from typing import Any

import yaml
from hypothesis import event, example, given
from hypothesis import strategies as st

from gpushare.analysis.migration.cards import Cards
from gpushare.analysis.migration.manifests import migrate_manifest
from gpushare.analysis.migration.pods import Target
from gpushare.analysis.migration.text import rewrite_text
from gpushare.api.documents import parse_documents
from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.api.pool import Schedule
from gpushare.names import Reason
from tests.kit.values.manifests import build_workload, list_places, put_at
from tests.kit.values.pool_views import a_view, admit
from tests.unit.migration.whole_card_pods import (
    MEMORY,
    MODE,
    WHOLE,
    Json,
    a_card_node,
    build_gpu_container,
    build_whole_pod,
    need,
    prefer,
    require,
    see_cards,
)

LABELS = {
    "gpushare": ["true", "false", "yes"],
    "cgpu": ["true", "false"],
    "cgpu.disable.isolation": ["true", "false"],
    MODE: ["share", "cgpu", "default"],
    "card": ["T4", "V100"],
}
TAKEN = {Reason.ROUTED, Reason.ROUTED_WITHOUT_ISOLATION, Reason.ALREADY_SELECTS}

selectors = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from(values) for key, values in LABELS.items()}
)
resources = st.sampled_from(
    [{WHOLE: 1}, {WHOLE: "1"}, {WHOLE: 2}, {WHOLE: 0}, {MEMORY: 3}, {"cpu": "1"}, {WHOLE: "x"}]
)
needs = st.sampled_from(sorted(LABELS)).flatmap(
    lambda key: st.builds(
        lambda operator, values: need(key, operator, *values),
        st.sampled_from(["In", "In", "NotIn"]),
        st.lists(st.sampled_from(LABELS[key]), min_size=1, max_size=2, unique=True),
    )
)
terms = st.lists(needs, min_size=1, max_size=3)


def build_affinity(found: list[list[Json]]) -> Json:
    return {"affinity": require(*found)} if found else {}


@st.composite
def pods(draw: st.DrawFn) -> Json:
    containers = [
        build_gpu_container(None, f"c{n}", resources={"limits": draw(resources)}, tty=True)
        for n in range(draw(st.integers(1, 2)))
    ]
    chosen = draw(selectors)
    return build_whole_pod(
        *containers,
        labels=draw(st.sampled_from([None, {"app": "a"}])),
        **({"nodeSelector": chosen} if chosen else {}),
        **build_affinity(draw(st.lists(terms, max_size=2))),
        terminationGracePeriodSeconds=3,
    )


targets = st.builds(
    Target,
    st.sampled_from(
        [
            see_cards(),
            see_cards(a_card_node("a"), a_card_node("b", 32510, labels={"card": "V100"})),
        ]
    ),
    st.sampled_from([None, 4, 40]),
    st.booleans(),
    st.sampled_from([Schedule.CGPU, Schedule.SHARE]),
)
KINDS = ["Deployment", "Job", "CronJob"]


@given(pods(), targets)
def test_a_pod_changes_once_and_only_in_what_it_asks_for_and_selects_or_somebody_is_told_why(
    pod: Json, target: Target
) -> None:
    before = deepcopy(pod)
    migrated = migrate_manifest(pod, target)
    event("changed" if migrated.raw != pod else "as it was")
    assert pod == before
    assert migrate_manifest(migrated.raw, target).raw == migrated.raw
    asks = any(c["resources"]["limits"].get(WHOLE) for c in migrated.raw["spec"]["containers"])
    assert not asks or (migrated.findings and migrated.raw == pod)
    after = deepcopy(migrated.raw)
    for each in (before, after):
        each["spec"].pop("nodeSelector", None)
        each["spec"].pop("affinity", None)
        each["metadata"].pop("labels", None)
        for container in each["spec"]["containers"]:
            for resource in (WHOLE, MEMORY):
                container["resources"]["limits"].pop(resource, None)
    assert after == before


plain_selectors = st.sampled_from(
    [
        {},
        {"disk": "ssd"},
        {"gpushare": "true"},
        {"gpushare": "false", "disk": "ssd"},
        {"cgpu": "true"},
        {"cgpu": "true", "cgpu.disable.isolation": "true"},
        {MODE: "default"},
    ]
)
plain_needs = [
    need("gpushare", "In", "true", "false"),
    need("cgpu", "NotIn", "false"),
    need("cgpu", "In", "true"),
]
plain_terms = st.lists(st.sampled_from(plain_needs).map(lambda each: [each]), max_size=1)


@given(
    plain_selectors,
    plain_terms,
    st.sampled_from([1, "1", 2]),
    st.sampled_from([None, 4]),
    st.sampled_from([Schedule.CGPU, Schedule.SHARE]),
)
def test_the_webhook_takes_what_is_made_of_a_pod_with_whole_cards(
    selector: Json, terms: list[list[Json]], cards: Any, share: int | None, unisolated: Schedule
) -> None:
    pod = build_whole_pod(
        build_gpu_container(cards), nodeSelector=selector, **build_affinity(terms)
    )
    target = Target(Cards(memory_everywhere=15), share, unisolated=unisolated)
    migrated = migrate_manifest(pod, target)
    if migrated.raw == pod:
        event("left as it is")
        assert migrated.findings
        return
    assert parse_pod_request(migrated.raw).asked == {MEMORY}
    decision = admit(migrated.raw, a_view("isolated", "cgpu"), a_view("shared", "share"))
    event(str(decision.reason))
    assert decision.reason in TAKEN


ON_SHARE, OFF_CGPU = need(MODE, "In", "share"), need("cgpu", "NotIn", "true")


@given(pods(), targets, st.sampled_from(KINDS), st.sampled_from([True, False, None]))
@example(
    build_whole_pod(**build_affinity([[ON_SHARE], [ON_SHARE, OFF_CGPU]])),
    Target(see_cards()),
    "Deployment",
    False,
)
def test_its_text_is_what_it_is(pod: Json, target: Target, kind: str, flow: bool | None) -> None:
    pod["metadata"]["annotations"] = {"note": "it's"}
    # Built anew, so that nothing is there twice and gets an anchor.
    raw = json.loads(json.dumps(build_workload(kind, "w", pod=pod)))
    text = yaml.safe_dump(raw, default_flow_style=flow)
    documents = parse_documents(text)
    wanted = [migrate_manifest(each.raw, target).raw for each in documents]
    rewritten, reformatted = rewrite_text(text, documents, wanted)
    assert [each.raw for each in parse_documents(rewritten)] == wanted
    assert not reformatted
    assert (rewritten == text) == (wanted[0] == documents[0].raw)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "true", WHOLE, "1"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["key", "values", "limits", WHOLE, "name"]), inner)
    ),
    max_leaves=4,
)
FULL = build_whole_pod(
    build_gpu_container(1, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
    labels={"app": "a"},
    nodeSelector={"cgpu": "true"},
    runtimeClassName="nvidia",
    initContainers=[build_gpu_container(None, "init")],
    affinity={
        "nodeAffinity": {
            **require([need("cgpu", "In", "true")])["nodeAffinity"],
            **prefer(need("gpushare", "Exists"))["nodeAffinity"],
        }
    },
)


@given(st.sampled_from(list_places(FULL)), anything, targets)
def test_whatever_stands_in_a_pod_it_is_migrated_or_left(
    place: tuple[Any, ...], value: Any, target: Target
) -> None:
    pod = deepcopy(FULL)
    put_at(pod, place, value)
    migrated = migrate_manifest(pod, target)
    event("changed" if migrated.raw != pod else "left")
    assert migrate_manifest(migrated.raw, target).raw == migrated.raw
