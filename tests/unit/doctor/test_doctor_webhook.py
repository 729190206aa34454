"""Findings about the webhook: its configuration, its CAs, its endpoints, its answer."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gpushare import names
from gpushare.core.doctor.finding import Code, Severity, Unseen
from gpushare.core.doctor.webhook import (
    Bundle,
    Trial,
    Tried,
    doubt,
    judge_bundles,
    judge_configuration,
    judge_endpoints,
    judge_trial,
)
from gpushare.core.doctor.webhooknames import OTHER_PODS, PODS, WORKLOADS
from gpushare.kube.errors import ApiError
from gpushare.kube.trials import build_trial_pod, read_refusal, try_pod
from tests.kit.fakeapi import FakeApi
from tests.kit.findings import expect_one, list_codes
from tests.kit.values import NOW

Json = dict[str, Any]
NS = "gpushare-system"
GROUPS = {"pods": "", "jobs": "batch", "cronjobs": "batch"}
EXPRESSIONS = yaml.safe_load(Path(__file__).with_name("expressions.yaml").read_text())
FORBIDDEN = Unseen("a right is missing: no")
WARNING, ERROR, OK, INFO = Severity.WARNING, Severity.ERROR, Severity.OK, Severity.INFO


def a_webhook(name: str, policy: str, *resources: str, default: str = "Ignore") -> Json:
    """As the chart makes it; tests/integration/test_cli_doctor.py holds it to that."""
    expressions: list[Json] = [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", NS],
        },
        {"key": names.LABEL_INJECT, "operator": "NotIn", "values": ["disabled"]},
    ]
    if name != WORKLOADS:
        other = "fail" if default == "Ignore" else "ignore"
        operator = "NotIn" if name == PODS else "In"
        expressions.append(
            {"key": names.LABEL_FAILURE_POLICY, "operator": operator, "values": [other]}
        )
    by_group: dict[str, list[str]] = {}
    for each in resources:
        group = GROUPS.get(each, "apps")
        by_group.setdefault(group, []).append(each)
    verbs = ["CREATE", "UPDATE"] if name == WORKLOADS else ["CREATE"]
    path = "/warn-workloads" if name == WORKLOADS else "/mutate-pods"
    return {
        "name": name,
        "failurePolicy": policy,
        "sideEffects": "None",
        "objectSelector": {},
        "namespaceSelector": {"matchExpressions": expressions},
        "rules": [
            {"apiGroups": [group], "apiVersions": ["v1"], "resources": each, "operations": verbs}
            for group, each in by_group.items()
        ],
        "matchConditions": [
            {"name": key, "expression": text} for key, text in EXPRESSIONS[name].items()
        ],
        "clientConfig": {"service": {"namespace": NS, "name": "gpushare-webhook", "path": path}},
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never" if name == WORKLOADS else "IfNeeded",
    }


def a_configuration(default: str = "Ignore") -> Json:
    other = "Fail" if default == "Ignore" else "Ignore"
    webhooks = [
        a_webhook(PODS, default, "pods", default=default),
        a_webhook(OTHER_PODS, other, "pods", default=default),
        a_webhook(
            WORKLOADS, "Ignore", "deployments", "statefulsets", "daemonsets", "jobs", "cronjobs"
        ),
    ]
    return {"webhooks": webhooks}


@pytest.mark.parametrize("default", ["Ignore", "Fail"])
def test_the_charts_configuration_is_well(default: str) -> None:
    assert list_codes(judge_configuration(a_configuration(default), NS)) == ["WebhookConfigured"]


def test_the_namespace_of_teardowns_may_be_exempt_too() -> None:
    raw = a_configuration()
    for webhook in raw["webhooks"]:
        webhook["namespaceSelector"]["matchExpressions"][0]["values"].append("teardown")
    assert list_codes(judge_configuration(raw, NS)) == ["WebhookConfigured"]


def _select(index: int, **selector: Any) -> Callable[[Json], None]:
    def change(raw: Json) -> None:
        raw["webhooks"][index]["namespaceSelector"] |= selector

    return change


def _set(index: int, key: str, value: Any) -> Callable[[Json], None]:
    def change(raw: Json) -> None:
        raw["webhooks"][index][key] = value

    return change


def _expression(raw: Json) -> None:
    raw["webhooks"][2]["matchConditions"][0]["expression"] = "false"


def _operations(raw: Json) -> None:
    raw["webhooks"][0]["rules"][0]["operations"] = ["DELETE"]


def _exempt(raw: Json) -> None:
    raw["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"] += ["a", "b"]


def _intercept_all(raw: Json) -> None:
    raw["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"] = ["kube-system"]


def _forget_inject(raw: Json) -> None:
    del raw["webhooks"][2]["namespaceSelector"]["matchExpressions"][1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_set(2, "failurePolicy", "Fail"), "workloads.gpushare.io: failurePolicy is Fail"),
        (_set(1, "failurePolicy", "Ignore"), "one of each was expected"),
        (_set(0, "sideEffects", "Some"), "sideEffects is Some"),
        (_set(0, "objectSelector", {"matchLabels": {"a": "b"}}), "it has an objectSelector"),
        (_set(0, "rules", []), "its rules are about nothing"),
        (_set(2, "matchConditions", None), "its matchConditions are none"),
        (_expression, "the expression of its matchCondition concerns-gpu-sharing is another one"),
        (_operations, "its rules are about DELETE of pods"),
        (_set(1, "reinvocationPolicy", "Never"), "reinvocationPolicy is Never, and IfNeeded"),
        (_set(1, "matchPolicy", "Exact"), "matchPolicy is Exact"),
        (_set(2, "clientConfig", {"url": "https://a/else"}), "it calls https://a/else"),
        (
            _set(0, "clientConfig", {"service": {"namespace": "b", "name": "c", "path": "/d"}}),
            f"it calls b/c/d, and {NS}/gpushare-webhook/mutate-pods was expected",
        ),
        (_select(0, matchLabels={"team": "a"}), "has matchLabels"),
        (_exempt, "exempts 4 namespaces"),
        (_intercept_all, f"does not exempt {NS}"),
        (_forget_inject, f"is not the chart's ({names.LABEL_INJECT})"),
    ],
)
def test_what_somebody_changed_is_named(change: Callable[[Json], None], told: str) -> None:
    raw = a_configuration()
    change(raw)
    expect_one(judge_configuration(raw, NS), Code.WEBHOOK_CHANGED, WARNING, told)


def test_a_webhook_or_a_configuration_that_is_missing_is_an_error() -> None:
    raw = a_configuration()
    del raw["webhooks"][1]
    expect_one(judge_configuration(raw, NS), Code.WEBHOOK_MISSING, ERROR, OTHER_PODS)
    expect_one(judge_configuration(None, NS), Code.WEBHOOK_MISSING, ERROR, "not in the cluster")
    assert list_codes(judge_configuration(FORBIDDEN, NS)) == ["Skipped"]


@pytest.mark.parametrize(
    ("bundle", "code", "told"),
    [
        (Bundle(True, (NOW + timedelta(days=80),)), Code.CERTIFICATE_TRUSTED, "80 days"),
        (
            Bundle(True, (NOW - timedelta(1), NOW + timedelta(days=9))),
            Code.CERTIFICATE_EXPIRING,
            "9 days",
        ),
        (Bundle(True, (NOW - timedelta(days=1),)), Code.CERTIFICATE_UNTRUSTED, "expired at"),
        (Bundle(True), Code.CERTIFICATE_UNTRUSTED, "no certificate that can be read"),
        (Bundle(False), Code.CERTIFICATE_UNTRUSTED, "is empty"),
    ],
)
def test_the_newest_ca_of_a_bundle_counts(bundle: Bundle, code: Code, told: str) -> None:
    expect_one(judge_bundles((bundle,), NOW), code, code.severity, told)


def test_a_service_needs_endpoints_that_are_ready() -> None:
    service = f"{NS}/gpushare-webhook"
    assert judge_endpoints(2, service).code is Code.WEBHOOK_SERVED
    assert judge_endpoints(FORBIDDEN, service).code is Code.SKIPPED
    expect_one([judge_endpoints(0, service)], Code.WEBHOOK_WITHOUT_ENDPOINTS, ERROR, service)


@pytest.mark.parametrize(
    ("tried", "code"),
    [
        (Tried(Trial.ANSWERED), Code.WEBHOOK_ANSWERS),
        (Tried(Trial.SILENT, "x509: unknown authority"), Code.WEBHOOK_SILENT),
        (Tried(Trial.REFUSED, "exceeded quota"), Code.TRIAL_REFUSED),
        (FORBIDDEN, Code.SKIPPED),
    ],
)
def test_a_trial_says_whether_the_webhook_answers(tried: Tried | Unseen, code: Code) -> None:
    expect_one([judge_trial(tried, "default")], code, code.severity, getattr(tried, "message", ""))


def test_a_silence_is_none_where_nobody_may_see_whether_there_is_a_webhook() -> None:
    silent, failed = Tried(Trial.SILENT), Tried(Trial.SILENT, "failed calling webhook")
    assert isinstance(doubt(silent, FORBIDDEN), Unseen)
    assert doubt(silent, a_configuration()) is silent
    assert doubt(failed, FORBIDDEN) is failed


# Trials.


def an_error(status: int, message: str) -> ApiError:
    return ApiError(status, orjson.dumps({"message": message}), what="POST pods")


@pytest.mark.parametrize(
    ("status", "message", "outcome"),
    [
        (403, f'admission webhook "{PODS}" denied the request: no pool', Trial.ANSWERED),
        (500, f'Internal error: failed calling webhook "{OTHER_PODS}": x509', Trial.SILENT),
        (403, "exceeded quota: gpu", Trial.REFUSED),
        (403, 'admission webhook "policy.example.com" denied the request', Trial.REFUSED),
        (422, "spec is invalid", Trial.REFUSED),
    ],
)
def test_a_refusal_is_the_webhooks_a_failed_calls_or_somebody_elses(
    status: int, message: str, outcome: Trial
) -> None:
    tried = read_refusal(an_error(status, message))
    assert isinstance(tried, Tried)
    assert tried.outcome is outcome


def test_without_the_right_to_create_pods_the_trial_is_skipped() -> None:
    message = 'pods is forbidden: User "a" cannot create resource "pods" in API group ""'
    assert isinstance(read_refusal(an_error(403, message)), Unseen)


@pytest.mark.parametrize("status", [401, 503])
def test_a_server_that_fails_says_nothing_of_the_webhook(status: int) -> None:
    with pytest.raises(ApiError):
        read_refusal(an_error(status, "no"))


@pytest.mark.parametrize("namespace", ["kube-system", "out"])
async def test_pods_that_are_not_the_webhooks_business_are_not_tried(namespace: str) -> None:
    fake = FakeApi()
    labels = {names.LABEL_INJECT: names.INJECT_DISABLED}
    fake.put("api/v1/namespaces/out", {"metadata": {"name": "out", "labels": labels}})
    async with fake.connected() as api:
        tried = await try_pod(api, namespace, {"kube-system"})
    assert isinstance(tried, Unseen)
    assert fake.writes == []


async def test_a_namespace_that_is_not_there_is_said_so() -> None:
    async with FakeApi().connected() as api:
        tried = await try_pod(api, "nowhere", ())
    assert isinstance(tried, Tried)
    assert tried.outcome is Trial.REFUSED


def test_a_trial_pod_asks_for_gpu_memory_and_has_no_name_of_its_own() -> None:
    pod = build_trial_pod()
    assert pod["metadata"] == {"generateName": "gpushare-doctor-"}
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"aliyun.com/gpu-mem": "1"}
