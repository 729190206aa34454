"""Findings about the webhook: its configuration, its CAs, its endpoints, its answer."""

from datetime import timedelta
from typing import Any

import orjson
import pytest
from aiohttp import web
from multidict import CIMultiDict

from gpushare import names
from gpushare.analysis.doctor.chart import OTHER_PODS, PODS, WORKLOADS, read_webhooks
from gpushare.analysis.doctor.webhook import (
    Trial,
    Tried,
    judge_bundles,
    judge_configuration,
    judge_endpoints,
    judge_trials,
)
from gpushare.analysis.finding import Finding, FindingCode, Severity, Unseen
from gpushare.cli.doctor.dry_runs import build_trial_pod, read_refusal, try_webhook
from gpushare.kube.errors import ApiError
from tests.kit.values.fake_api import Answer, FakeApi, served_by
from tests.kit.values.objects import NOW
from tests.unit.doctor.expect_findings import expect_one, list_codes

Json = dict[str, Any]
NS = "gpushare-system"
FORBIDDEN = Unseen("a right is missing: no")
WARNING, ERROR, OK, INFO = Severity.WARNING, Severity.ERROR, Severity.OK, Severity.INFO


def a_configuration() -> Json:
    """As the API server has the chart's, which tests/integration/commands/test_cli_doctor.py shows
    for other values."""
    webhooks = read_webhooks()
    for webhook in webhooks.values():
        webhook["clientConfig"]["caBundle"] = "LS0t"
        webhook["namespaceSelector"]["matchExpressions"][0]["values"] = ["kube-system", NS]
    return {"webhooks": [*webhooks.values()]}


EXEMPT = "namespaceSelector/matchExpressions/0/values"
SERVICE = {"service": {"namespace": NS, "name": "gpushare-webhook", "port": 443, "path": "/d"}}


@pytest.mark.parametrize(
    ("index", "path", "value", "told"),
    [
        (
            2,
            "failurePolicy",
            "Fail",
            "workloads.gpushare.io: failurePolicy is Fail, expected Ignore",
        ),
        (1, "failurePolicy", "Ignore", f"{OTHER_PODS}: failurePolicy is Ignore, expected Fail"),
        (0, "objectSelector", {"matchLabels": {"a": "b"}}, "objectSelector.matchLabels is set"),
        (0, "rules", [], "rules.0 is missing"),
        (0, "rules/0/operations", ["DELETE"], "rules.0.operations is [DELETE], expected"),
        (2, "matchConditions/0/expression", "false", "concerns-gpu-sharing.expression differs"),
        (1, "reinvocationPolicy", "Never", "reinvocationPolicy is Never, expected"),
        (0, "clientConfig", SERVICE, "clientConfig.service.path is /d, expected"),
        (0, "clientConfig/service/namespace", "b", f"service.namespace is b, expected {NS}"),
        (2, "timeoutSeconds", 30, f"{WORKLOADS}: timeoutSeconds is 30, expected 3"),
        (0, "namespaceSelector/matchLabels", {"team": "a"}, "namespaceSelector.matchLabels is"),
        (0, EXEMPT, ["kube-system", NS, "a", "b"], f"expected [kube-system, {NS}]"),
        (0, EXEMPT, ["kube-system"], f"is [kube-system], expected [kube-system, {NS}]"),
        (
            2,
            "namespaceSelector/matchExpressions/1/key",
            "other",
            f"{names.LABEL_INJECT} is missing",
        ),
    ],
)
def test_what_somebody_changed_is_named(index: int, path: str, value: Any, told: str) -> None:
    raw = a_configuration()
    *parents, key = path.split("/")
    place = raw["webhooks"][index]
    for parent in parents:
        place = place[int(parent) if parent.isdigit() else parent]
    place[int(key) if key.isdigit() else key] = value
    found = list(judge_configuration(raw, NS))
    assert {(each.code, each.severity) for each in found} == {
        (FindingCode.WEBHOOK_CHANGED, WARNING)
    }
    assert told in found[0].message


ADDED = {"key": "control-plane", "operator": "NotIn", "values": ["true"]}


def enforce(raw: Json, *indices: int, added: Json = ADDED, **metadata: Any) -> Json:
    """As a cloud's controller leaves it, which adds an expression to webhooks."""
    for index in indices:
        raw["webhooks"][index]["namespaceSelector"]["matchExpressions"].append(added)
    return {**raw, "metadata": metadata}


def test_what_a_cloud_adds_to_every_webhook_is_said_once_with_its_manager_and_a_remedy() -> None:
    selector: Json = {"f:namespaceSelector": {"f:matchExpressions": {}}}
    fields = {"f:webhooks": {'k:{"name":"pods.gpushare.io"}': selector}}
    entry = {"manager": "admissionsenforcer", "fieldsV1": fields}
    raw = enforce(a_configuration(), 0, 1, 2, 3, managedFields=[entry])
    told = "control-plane NotIn true"
    found = expect_one(judge_configuration(raw, NS), FindingCode.WEBHOOK_NARROWED, INFO, told)
    assert "admissionsenforcer" in found.message
    assert "--force-conflicts" in found.remedy
    assert "webhook.annotations" in found.remedy


@pytest.mark.parametrize(
    "added",
    [
        {"key": "no-such-label", "operator": "Exists"},
        {"key": "team", "operator": "NotIn", "values": ["a"]},
        {"key": "control-plane", "operator": "Exists"},
    ],
)
def test_what_no_cloud_is_known_to_add_is_a_change_of_every_webhook(added: Json) -> None:
    raw = enforce(a_configuration(), 0, 1, 2, 3, added=added)
    assert list_codes(judge_configuration(raw, NS)) == ["WebhookChanged"] * 4


@pytest.mark.parametrize(
    "added",
    [
        {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
        {"key": "control-plane", "operator": "DoesNotExist"},
    ],
)
def test_each_expression_that_aks_adds_may_stay(added: Json) -> None:
    raw = enforce(a_configuration(), 0, 1, 2, 3, added=added)
    assert list_codes(judge_configuration(raw, NS)) == ["WebhookNarrowed"]


def test_what_is_changed_beside_that_is_said_as_well() -> None:
    raw = enforce(a_configuration(), 0, 1, 2, 3)
    raw["webhooks"][0]["timeoutSeconds"] = 3
    raw["webhooks"][2]["failurePolicy"] = "Fail"
    codes = list_codes(judge_configuration(raw, NS))
    assert codes == ["WebhookNarrowed", "WebhookChanged"]


def test_an_expression_that_is_added_to_one_webhook_alone_is_a_change() -> None:
    raw = enforce(a_configuration(), 0)
    expect_one(judge_configuration(raw, NS), FindingCode.WEBHOOK_CHANGED, WARNING, "control-plane")


def call_at(origin: str, raw: Json) -> Json:
    for webhook in raw["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {"url": f"{origin}{path}", "caBundle": "LS0t"}
    return raw


def test_a_url_may_be_anywhere_and_all_webhooks_are_called_there() -> None:
    raw = call_at("https://a:1", a_configuration())
    assert list_codes(judge_configuration(raw, NS)) == ["WebhookConfigured"]
    raw["webhooks"][2]["clientConfig"]["url"] = "https://b/warn-workloads"
    told = f"{WORKLOADS}: clientConfig.url is https://b/warn-workloads, expected https://a:1/"
    expect_one(judge_configuration(raw, NS), FindingCode.WEBHOOK_CHANGED, WARNING, told)


def test_a_url_without_tls_is_none_that_the_chart_takes() -> None:
    found = list(judge_configuration(call_at("http://a", a_configuration()), NS))
    assert len(found) == 4
    assert "http://a/mutate-pods, expected https://HOST:PORT/" in found[0].message


def test_the_kinds_of_other_projects_are_those_of_the_installation() -> None:
    raw = a_configuration()
    raw["webhooks"][3]["rules"].pop()
    assert list_codes(judge_configuration(raw, NS)) == ["WebhookConfigured"]


def test_a_webhook_or_a_configuration_that_is_missing_is_an_error() -> None:
    raw = a_configuration()
    del raw["webhooks"][1]
    expect_one(judge_configuration(raw, NS), FindingCode.WEBHOOK_MISSING, ERROR, OTHER_PODS)
    expect_one(
        judge_configuration(None, NS), FindingCode.WEBHOOK_MISSING, ERROR, "not in the cluster"
    )
    assert list_codes(judge_configuration(FORBIDDEN, NS)) == ["Skipped"]


@pytest.mark.parametrize(
    ("expiries", "code", "told"),
    [
        ([80], FindingCode.CERTIFICATE_TRUSTED, "80 more days"),
        ([-1, 9], FindingCode.CERTIFICATE_EXPIRING, "9 more days"),
        ([-1], FindingCode.CERTIFICATE_UNTRUSTED, "expired at"),
        ([], FindingCode.CERTIFICATE_UNTRUSTED, "no readable certificate"),
        (None, FindingCode.CERTIFICATE_UNTRUSTED, "is empty"),
    ],
)
def test_the_newest_ca_of_a_bundle_counts(
    expiries: list[int] | None, code: FindingCode, told: str
) -> None:
    bundle = None if expiries is None else [NOW + timedelta(days) for days in expiries]
    expect_one(judge_bundles([bundle], "gpushare-system", NOW), code, code.severity, told)


def test_a_service_needs_endpoints_that_are_ready() -> None:
    service = f"{NS}/gpushare-webhook"
    assert judge_endpoints(2, service).code is FindingCode.WEBHOOK_SERVED
    assert judge_endpoints(FORBIDDEN, service).code is FindingCode.SKIPPED
    expect_one([judge_endpoints(0, service)], FindingCode.WEBHOOK_WITHOUT_ENDPOINTS, ERROR, service)


def judge(pod: Tried | Unseen, workload: Tried | Unseen, found: Any = None) -> list[Finding]:
    return list(
        judge_trials((pod, workload), found or a_configuration(), "default", "gpushare-system")
    )


@pytest.mark.parametrize(
    ("tried", "of_pod", "of_workload"),
    [
        (Tried(Trial.ANSWERED), FindingCode.WEBHOOK_ANSWERS, FindingCode.WEBHOOK_ANSWERS),
        (Tried(Trial.SILENT, "x509"), FindingCode.WEBHOOK_SILENT, FindingCode.WORKLOADS_UNWARNED),
        (
            Tried(Trial.REFUSED, "exceeded quota"),
            FindingCode.TRIAL_REFUSED,
            FindingCode.TRIAL_REFUSED,
        ),
        (FORBIDDEN, FindingCode.SKIPPED, FindingCode.SKIPPED),
    ],
)
def test_trials_say_whether_the_webhook_answers(
    tried: Tried | Unseen, of_pod: FindingCode, of_workload: FindingCode
) -> None:
    pod, workload = judge(tried, tried)
    assert (pod.code, workload.code) == (of_pod, of_workload)
    told = getattr(tried, "message", FORBIDDEN.why)
    assert told in pod.message
    assert told in workload.message


def test_a_silence_is_none_where_nobody_may_see_whether_there_is_a_webhook() -> None:
    silent, failed = Tried(Trial.SILENT), Tried(Trial.SILENT, "failed calling webhook")
    assert list_codes(judge(silent, silent, FORBIDDEN)) == ["Skipped", "Skipped"]
    assert list_codes(judge(failed, silent, FORBIDDEN)) == ["WebhookSilent", "Skipped"]


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


@pytest.mark.parametrize(
    ("namespace", "told"),
    [
        ("kube-system", "exempt"),
        ("out", "inject=disabled"),
        ("nowhere", "Namespace nowhere does not exist"),
    ],
)
async def test_where_nothing_is_the_webhooks_business_nothing_is_tried(
    namespace: str, told: str
) -> None:
    fake = FakeApi()
    labels = {names.LABEL_INJECT: names.INJECT_DISABLED}
    fake.put("api/v1/namespaces/out", {"metadata": {"name": "out", "labels": labels}})
    async with fake.connected() as api:
        tried = await try_webhook(api, namespace, {"kube-system"})
    assert isinstance(tried, Unseen)
    assert told in tried.why
    assert fake.writes == []


def answer_with(*warnings: str, reason: str = "Routed") -> Answer:
    """An API server that creates all as a dry run, decided on, and warns so."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"metadata": {"name": "default"}})
        assert request.query["dryRun"] == "All"
        created = await request.json()
        created["metadata"]["annotations"] = {
            names.ANNOTATION_DECISION: f'{{"reason": "{reason}"}}'
        }
        headers = [("Warning", f'299 - "{warning}"') for warning in warnings]
        return web.json_response(created, status=201, headers=CIMultiDict(headers))

    return answer


@pytest.mark.parametrize(
    ("warnings", "outcome"),
    [
        ((), Trial.SILENT),
        (('would violate PodSecurity \\"restricted\\"',), Trial.SILENT),
        (
            ("spec is old", f"annotation {names.ANNOTATION_ISOLATION} is not required"),
            Trial.ANSWERED,
        ),
    ],
)
async def test_a_deployment_is_answered_where_the_webhook_warns(
    warnings: tuple[str, ...], outcome: Trial
) -> None:
    async with served_by(answer_with(*warnings)) as api:
        tried = await try_webhook(api, "default", ())
    assert tried == (Tried(Trial.ANSWERED), Tried(outcome))


async def test_a_choice_of_the_admission_policy_is_no_answer_of_the_webhook() -> None:
    async with served_by(answer_with(reason="RoutedByPolicy")) as api:
        tried = await try_webhook(api, "default", ())
    assert tried == (Tried(Trial.SILENT), Tried(Trial.SILENT))


async def test_warnings_are_read_as_the_api_server_writes_them() -> None:
    async with served_by(answer_with(r"a \"b\" \\ c", "d")) as api:
        _, warnings = await api.try_create("api/v1/namespaces/default/pods", build_trial_pod())
    assert warnings == (r'a "b" \ c', "d")
