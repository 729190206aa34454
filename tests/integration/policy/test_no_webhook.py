"""Pods that are created while webhooks answer, while none does, and while they die."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from tests.integration.webhook.fake_webhook import another_that
from tests.integration.webhook.webhook_replicas import two_webhooks
from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect, expect_capacity, expect_pool_ready
from tests.kit.cluster.installations import installation_with
from tests.kit.cluster.namespaces import Namespace, temporary_namespace
from tests.kit.cluster.pod_admission import (
    ISOLATION,
    Answer,
    decision_of,
    kubectl_create,
    pool_of,
)
from tests.kit.values.manifests import build_pod, build_pool

POLICY = {"admissionPolicy.enabled": "true"}
TABLE = {"GPUSHARE_ADMISSION_TABLE": "true"}
VERIFIED = "gpushare.io/isolation-verified"
SPOT = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
ADDS_A_LABEL = {"op": "add", "path": "/metadata/labels/changed", "value": "yes"}
IN_FLIGHT = 16
OUTAGE_PODS, BURST_PODS, BEFORE_THE_KILL = 500, 1000, 300


@pytest.fixture
def space(bench: Bench) -> Iterator[Namespace]:
    with temporary_namespace(bench) as space:
        yield space


@pytest.fixture
def chosen_by_policy(bench: Bench, space: Namespace) -> Iterator[None]:
    """Two pools with a node each, and the policy that knows them; no webhook runs."""
    with installation_with(bench, POLICY):
        given_pools(bench)
        expect_reason(space, "RoutedByPolicy")
        yield


def given_pools(bench: Bench) -> None:
    bench.install("Professional")
    bench.operators.start("controller", env=TABLE)
    bench.add_nodes("share1", node_pool="open", cards=8)
    bench.add_nodes("cgpu1", node_pool="isolated", cards=8)
    bench.create_pool(build_pool("open", node_pool="open", schedule="share"))
    tolerations = {"tolerations": [SPOT]}
    bench.create_pool(
        build_pool("isolated", node_pool="isolated", schedule="cgpu", workloads=tolerations)
    )
    for pool in ("open", "isolated"):
        expect_pool_ready(bench, pool, nodes=1)
        expect_capacity(bench, pool, memoryTotal=120)


def expect_reason(space: Namespace, reason: str) -> None:
    expect(
        space.bench,
        f"pods are {reason}",
        lambda: decision_of(space.send(build_pod("probe"))).get("reason") == reason,
    )


def build_burst(number: int) -> list[Json]:
    """Build pods: of ten, one requires isolation, and one does without."""
    isolation = {0: {ISOLATION: "required"}, 1: {ISOLATION: "none"}}
    return [
        build_pod(f"p{index}", annotations=isolation.get(index % 10)) for index in range(number)
    ]


def test_each_pod_that_is_created_while_no_webhook_answers_gets_a_pool(
    chosen_by_policy: None, space: Namespace
) -> None:
    with ThreadPoolExecutor(IN_FLIGHT) as calls:
        pods = list(calls.map(space.create, build_burst(OUTAGE_PODS)))
    assert Counter(map(pool_of, pods)) == {"isolated": 450, "open": 50}
    required = [pod for pod in pods if pod["metadata"]["annotations"].get(ISOLATION) == "required"]
    assert len(required) == OUTAGE_PODS / 10
    for pod in required:
        assert pod["spec"]["nodeSelector"][VERIFIED] == "true"
        assert pod["spec"]["nodeSelector"]["ack.node.gpu.schedule"] == "cgpu"


def test_each_pod_of_a_burst_in_which_all_webhooks_are_killed_gets_a_pool(
    bench: Bench, chosen_by_policy: None, space: Namespace
) -> None:
    halfway = Event()

    def create(numbered: tuple[int, Json]) -> Json:
        number, pod = numbered
        if number == BEFORE_THE_KILL:
            halfway.set()
        return space.create(pod)

    with two_webhooks(bench, {}) as webhooks:
        expect_reason(space, "Routed")
        with ThreadPoolExecutor(IN_FLIGHT) as calls:
            sent = calls.map(create, enumerate(build_burst(BURST_PODS)))
            assert halfway.wait(60)
            for process in webhooks:
                process.kill()
            pods = list(sent)
    pools = Counter(map(pool_of, pods))
    by = Counter(decision_of(pod)["reason"] for pod in pods)
    print(f"pools={dict(pools)} reasons={dict(by)}")
    assert None not in pools
    assert by["RoutedByPolicy"] > 0
    assert by["Routed"] >= BEFORE_THE_KILL / 2


def list_pods() -> Sequence[Json]:
    """Pods of all kinds between which admission distinguishes."""
    required = {ISOLATION: "required"}
    pods = [
        build_pod("plain"),
        build_pod("isolated", annotations=required),
        build_pod("not-isolated", annotations={ISOLATION: "none"}),
        build_pod("selects", selects={"zone": "nowhere"}),
        build_pod("on-request", annotations={"gpushare.io/pool": "open"}),
        build_pod("of-no-pool", annotations={"gpushare.io/pool": "none"}),
        build_pod("chooses", selects={"gpushare.io/pool": "open"}),
        build_pod("opts-out", annotations={"gpushare.io/inject": "disabled"}),
        build_pod("without-gpu", gib=0),
    ]
    tolerant = build_pod("tolerates")
    tolerant["spec"]["tolerations"] = [SPOT]
    return [*pods, tolerant]


def read_written(pod: Json) -> Json:
    """Read what admission may write."""
    return {
        "annotations": pod["metadata"].get("annotations"),
        **{key: pod["spec"].get(key) for key in ("nodeSelector", "tolerations")},
    }


def test_with_a_webhook_pods_are_as_without_the_policy(bench: Bench, space: Namespace) -> None:
    given_pools(bench)
    with two_webhooks(bench, {}):
        expect_reason(space, "Routed")
        without = [read_written(space.send(pod)) for pod in list_pods()]
    with installation_with(bench, POLICY):
        bench.operators.start("controller", env=TABLE)
        expect_reason(space, "RoutedByPolicy")
        with two_webhooks(bench, {}):
            expect_reason(space, "Routed")
            assert [read_written(space.send(pod)) for pod in list_pods()] == without


def test_of_a_pod_that_no_pool_takes_its_author_is_warned_or_it_is_refused(
    bench: Bench, chosen_by_policy: None, space: Namespace
) -> None:
    pod = build_pod("p", annotations={"gpushare.io/pool": "none"})
    pod["metadata"]["namespace"] = space.name
    created = kubectl_create(bench, pod)
    assert created.succeeded
    (warning,) = created.warnings
    assert "No pool was found" in warning
    others = (
        build_pod("opts-out", annotations={"gpushare.io/inject": "disabled"}),
        build_pod("chooses", selects={"gpushare.io/pool": "elsewhere"}),
        build_pod("gets-one"),
    )
    for other in others:
        other["metadata"]["namespace"] = space.name
        assert kubectl_create(bench, other) == Answer(True, "")
    space.label({"gpushare.io/on-no-pool": "deny"})
    expect(
        bench, "the pod is refused", lambda: "gpushare-no-pool" in kubectl_create(bench, pod).text
    )
    assert not kubectl_create(bench, pod).succeeded
    assert pool_of(space.send(build_pod("gets-one"))) == "isolated"


def test_a_pod_that_another_webhook_changes_after_the_choice_is_left_alone(
    bench: Bench, chosen_by_policy: None, space: Namespace
) -> None:
    pod = build_pod("p", labels={"another": "please"})
    alone = space.send(pod)
    with another_that(bench, ADDS_A_LABEL):
        expect(bench, "it is asked", lambda: "changed" in space.send(pod)["metadata"]["labels"])
        assert read_written(space.send(pod)) == read_written(alone)


def test_without_a_webhook_a_decision_that_a_user_wrote_exempts_no_pod(
    bench: Bench, chosen_by_policy: None, space: Namespace
) -> None:
    forged = {"gpushare.io/pool": "none", "gpushare.io/decision": "{}"}
    pod = build_pod("p", annotations=forged)
    pod["metadata"]["namespace"] = space.name
    with installation_with(bench, {**POLICY, "webhook.enabled": "false"}):
        expect(bench, "it is warned of", lambda: bool(kubectl_create(bench, pod).warnings))


@pytest.fixture
def selects_open(bench: Bench) -> Iterator[None]:
    """A policy of somebody else selects the pool `open` for pods that have the label `another`."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    has_label = "'another' in object.metadata.?labels.orValue({})"
    selects = (
        '[JSONPatch{op: "add", path: "/spec/nodeSelector", value: {"gpushare.io/pool": "open"}}]'
    )
    policy = {
        "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE"]}]},
        "matchConditions": [{"name": "has-label", "expression": has_label}],
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": selects}}],
    }
    specs = {"policies": policy, "policybindings": {"policyName": "another"}}
    paths = {
        kind: f"/apis/admissionregistration.k8s.io/v1/mutatingadmission{kind}" for kind in specs
    }
    for kind, spec in specs.items():
        bench.call("POST", paths[kind], {"metadata": {"name": "another"}, "spec": spec})
    yield
    for path in paths.values():
        bench.call("DELETE", f"{path}/another")


def test_a_decision_that_a_user_wrote_takes_away_no_selector_of_an_administrator(
    bench: Bench, chosen_by_policy: None, selects_open: None, space: Namespace
) -> None:
    added = {"nodeSelector": ["gpushare.io/pool"], "tolerations": [0, 0]}
    mark = {"v": 1, "reason": "RoutedByPolicy", "pool": "open", "added": added}
    forged = {"gpushare.io/decision": json.dumps(mark)}
    asks = {"another": "please"}
    with two_webhooks(bench, {}):
        expect_reason(space, "Routed")
        assert pool_of(space.send(build_pod("plain"))) == "isolated"
        selected = build_pod("selected", labels=asks)
        expect(bench, "the policy selects", lambda: pool_of(space.send(selected)) == "open")
        assert pool_of(space.send(build_pod("p", annotations=forged, labels=asks))) == "open"
