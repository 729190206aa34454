"""Findings about the operator's own processes, its CRD, and what it is allowed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpushare.analysis.doctor.chart import CONTROLLER, Need, Role, list_roles
from gpushare.analysis.doctor.crd import judge_crd
from gpushare.analysis.doctor.installation import (
    Deployment,
    Leader,
    judge_deployments,
    judge_leader,
)
from gpushare.analysis.doctor.report import Installation, judge_installation
from gpushare.analysis.doctor.rights import YOURS, GrantedRights, judge_accounts, judge_user
from gpushare.analysis.finding import FindingCode, Severity, Unseen
from gpushare.api.crd import build_crd
from gpushare.cli.cluster.deployments import list_deployments, parse_deployment
from gpushare.cli.doctor.installation import read_installation
from gpushare.names import SETTINGS_PREFIX
from gpushare.settings import Settings, Variable
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.objects import NOW
from tests.unit.doctor.expect_findings import expect_one, list_codes

Json = dict[str, Any]
NS = "gpushare-system"
FORBIDDEN = Unseen("a right is missing: no")
WARNING, ERROR, OK, INFO = Severity.WARNING, Severity.ERROR, Severity.OK, Severity.INFO


def a_deployment(ready: int = 2, version: str = "1.0") -> Deployment:
    return Deployment(NS, "gpushare-controller", 2, ready, version, "registry/op:1")


@pytest.mark.parametrize(
    ("deployments", "code", "severity", "told"),
    [
        ((a_deployment(),), FindingCode.OPERATOR_FOUND, OK, "2 of 2 replicas"),
        ((a_deployment(ready=1),), FindingCode.REPLICAS_MISSING, WARNING, "1 of 2 replicas"),
        ((a_deployment(ready=0),), FindingCode.OPERATOR_DOWN, ERROR, "0 of 2 replicas"),
        ((a_deployment(version="0.9"),), FindingCode.OTHER_VERSION, WARNING, "0.9"),
        ((), FindingCode.NO_DEPLOYMENTS, INFO, ""),
        (FORBIDDEN, FindingCode.SKIPPED, INFO, "a right is missing"),
    ],
)
def test_deployments_are_found_with_their_replicas_and_their_version(
    deployments: tuple[Deployment, ...] | Unseen, code: FindingCode, severity: Severity, told: str
) -> None:
    found = list(judge_deployments(deployments, "1.0"))
    expect_one(found, code, severity, told)
    assert len(found) == 1 + (code is FindingCode.OTHER_VERSION)


@pytest.mark.parametrize(
    ("leader", "code"),
    [
        (Leader("", NOW), FindingCode.CONTROLLER_SILENT),
        (Leader("op-1", None), FindingCode.CONTROLLER_SILENT),
        (None, FindingCode.CONTROLLER_SILENT),
        (FORBIDDEN, FindingCode.SKIPPED),
    ],
)
def test_a_lease_that_nobody_holds_is_silent_and_one_that_may_not_be_read_skipped(
    leader: Leader | Unseen | None, code: FindingCode
) -> None:
    assert judge_leader(leader, NS, NOW).code is code


def _root(version: Json) -> Json:
    schema: Json = version["schema"]["openAPIV3Schema"]
    return schema


def _properties(version: Json, *path: str) -> Json:
    schema = _root(version)
    for field in path:
        schema = schema["properties"][field]
    properties: Json = schema["properties"]
    return properties


def _lack_fields(version: Json) -> None:
    del _properties(version, "spec", "rollout")["canary"]
    del _properties(version, "status")["isolation"]


def _have_otherwise(version: Json) -> None:
    expressions = _properties(version, "spec", "nodes", "selector")["matchExpressions"]
    expressions["items"]["properties"]["operator"]["enum"] = ["In"]


CURRENT, DIFFERS, TEXT = FindingCode.CRD_CURRENT, FindingCode.CRD_DIFFERS, {"type": "string"}
OPERATOR = "differ: spec.nodes.selector.matchExpressions[].operator"
CRDS: dict[str, tuple[Callable[[Json], object], FindingCode, str]] = {
    "it is the program's own": (dict, CURRENT, ""),
    "its words do not count": (lambda it: _root(it).update(description="Other."), CURRENT, ""),
    "it lacks fields": (_lack_fields, DIFFERS, "missing: spec.rollout.canary, status.isolation"),
    "it has a list's field otherwise": (_have_otherwise, DIFFERS, OPERATOR),
    "it is newer": (
        lambda it: _properties(it, "spec").update(later=TEXT),
        FindingCode.CRD_NEWER,
        "spec.later",
    ),
    "its root is another": (lambda it: _root(it).update(nullable=True), DIFFERS, "nullable"),
    "it does not serve the version": (lambda it: it.update(served=False), DIFFERS, "v1alpha1"),
    "it keeps no status apart": (lambda it: it.pop("subresources"), DIFFERS, "subresources.status"),
    "many fields are not all listed": (
        lambda it: _properties(it, "spec").clear(),
        DIFFERS,
        " more",
    ),
}


@pytest.mark.parametrize(("change", "code", "told"), CRDS.values(), ids=CRDS)
def test_a_crd_is_compared_with_the_programs_own(
    change: Callable[[Json], object], code: FindingCode, told: str
) -> None:
    crd = build_crd()
    change(crd["spec"]["versions"][0])
    expect_one([judge_crd(crd, build_crd())], code, code.severity, told)


NEED = Need("", "nodes", ("get", "patch"))
ONE = Role("a", "", CONTROLLER, (NEED,))
NAMED = replace(ONE, needs=(replace(NEED, name="n1"),))
MINE, OTHERS = frozenset({(NS, CONTROLLER)}), frozenset({("other", "x")})


def a_rule(resources: str, verbs: str, group: str = "", **more: Any) -> tuple[Json, ...]:
    asked = {"resources": resources.split(), "verbs": verbs.split()}
    return ({"apiGroups": [group], **asked, **more},)


ALL = a_rule("*", "*", "*")


@pytest.mark.parametrize(
    ("role", "rules"),
    [
        (ONE, ALL),
        (ONE, a_rule("pods nodes", "patch get list")),
        (NAMED, a_rule("nodes", "get patch", resourceNames=["n1"])),
        (NAMED, a_rule("nodes", "get patch")),
    ],
)
def test_a_rule_may_hold_more(role: Role, rules: tuple[Json, ...]) -> None:
    held = [GrantedRights(role, rules, MINE)]
    assert list_codes(judge_accounts(held, NS)) == ["RightsComplete"]


@pytest.mark.parametrize(
    ("rules", "subjects", "told"),
    [
        (a_rule("nodes", "get"), MINE, "may not patch nodes"),
        (a_rule("nodes", "*", "apps"), MINE, "may not get, patch nodes"),
        (a_rule("nodes", "*", resourceNames=["n1"]), MINE, "may not get, patch nodes"),
        (None, MINE, "not in the cluster"),
        (ALL, None, "No binding"),
        (ALL, OTHERS, "does not name account"),
    ],
)
def test_what_an_account_lacks_is_said(rules: Any, subjects: Any, told: str) -> None:
    found = judge_accounts([GrantedRights(ONE, rules, subjects)], NS)
    expect_one(found, FindingCode.RIGHTS_MISSING, ERROR, told)


def test_roles_that_may_not_be_read_are_skipped_once_and_the_rest_is_judged() -> None:
    held = [GrantedRights(ONE, FORBIDDEN, FORBIDDEN), GrantedRights(ONE, None, FORBIDDEN)]
    assert list_codes(judge_accounts(held, NS)) == ["RightsMissing", "Skipped"]


def test_one_account_may_have_both_roles() -> None:
    webhook = replace(ONE, account="gpushare-webhook")
    assert list_codes(judge_accounts([GrantedRights(webhook, ALL, MINE)], NS)) == ["RightsComplete"]


def test_what_a_person_may_not_is_said_by_what_it_is_for() -> None:
    allowed = {right: right.verb != "patch" and right.resource != "pods" for right in YOURS}
    lacks = [each.message.partition(".")[0] for each in judge_user(allowed)]
    assert lacks == [f"You may not {what}" for what in
                     ("list pods", "patch gpusharepools", "patch nodes")]  # fmt: skip
    assert list_codes(judge_user(dict.fromkeys(YOURS, True))) == ["YourRights"]
    assert list_codes(judge_user(FORBIDDEN)) == ["Skipped"]


def an_installation(**parts: Any) -> Installation:
    values: Json = {
        "namespace": NS, "deployments": (), "leader": None, "crd": None, "configuration": None,
        "service": "", "endpoints": 0, "accounts": (),
    }  # fmt: skip
    return Installation(**(values | parts))


@pytest.mark.parametrize(
    ("parts", "codes"),
    [
        ({}, ["NotInstalled"]),
        ({"crd": build_crd()}, ["OnlyPoolsLeft", "CrdCurrent"]),
        ({"crd": FORBIDDEN, "configuration": FORBIDDEN}, ["Skipped", "Skipped"]),
    ],
    ids=["nothing", "the CRD alone", "nobody may see what"],
)
def test_a_cluster_with_nothing_of_the_operator_at_work_is_no_error(
    parts: Json, codes: list[str]
) -> None:
    found = list(judge_installation(an_installation(**parts), (), build_crd(), "1.0", NOW))
    assert list_codes(found) == codes


def test_half_an_installation_is_one_that_does_not_work() -> None:
    half = an_installation(deployments=(a_deployment(),))
    found = judge_installation(half, (), build_crd(), "1.0", NOW)
    assert {"ControllerSilent", "CrdMissing", "WebhookMissing"} <= {*list_codes(found)}


def test_an_installation_without_a_webhook_lacks_none() -> None:
    controller = replace(a_deployment(), settings={Variable.ADMISSION_TABLE: "true"})
    without = an_installation(deployments=(controller,))
    found = list(judge_installation(without, (), build_crd(), "1.0", NOW))
    assert {"WebhookNotInstalled"} == {c for c in list_codes(found) if c.startswith("Webhook")}
    accounts = {role.account for role in list_roles(NS, controller.settings)}
    assert accounts == {CONTROLLER}


@pytest.mark.parametrize(
    ("labels", "image", "version"),
    [
        ({"app.kubernetes.io/version": "1.0"}, "registry/op:1", "1.0"),
        ({}, "registry:5000/op:v2.0.1", "2.0.1"),
    ],
)
def test_a_deployments_version_and_settings_are_those_of_its_containers(
    labels: Json, image: str, version: str
) -> None:
    env = [
        {"name": "GPUSHARE_MEMORY_UNIT", "value": "MiB"},
        {"name": "GPUSHARE_NAMESPACE", "valueFrom": {}},
    ]
    containers = [{"image": image, "env": env}]
    raw: Json = {
        "metadata": {"namespace": NS, "name": "gpushare-webhook", "labels": labels},
        "spec": {"replicas": 3, "template": {"spec": {"containers": containers}}},
        "status": {"readyReplicas": 1},
    }
    found = parse_deployment(raw)
    assert (found.wanted, found.ready, found.version) == (3, 1, version)
    settings = {"GPUSHARE_MEMORY_UNIT": "MiB", "GPUSHARE_NAMESPACE": None}
    variables = an_installation(deployments=(found,)).variables
    assert variables == {f"deployment {NS}/gpushare-webhook": settings}
    assert parse_deployment(raw | {"spec": {}, "status": {}}).ready == 0


async def test_endpoints_that_are_ready_are_counted_where_a_service_is_called() -> None:
    fake = FakeApi("apis/apps/v1/deployments", f"apis/apps/v1/namespaces/{NS}/deployments")
    service = {"service": {"namespace": NS, "name": "gpushare-webhook", "path": "/"}}
    fake.put(
        "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpushare-webhook",
        {"webhooks": [{"name": "pods.gpushare.io", "clientConfig": service}]},
    )
    ready, away = {"conditions": {"ready": True}}, {"conditions": {"ready": False}}
    fake.put(
        f"apis/discovery.k8s.io/v1/namespaces/{NS}/endpointslices",
        {"items": [{"endpoints": [ready, away]}, {"endpoints": [{}]}, {"endpoints": None}]},
    )
    async with fake.connected() as api:
        installation = await read_installation(api, await list_deployments(api), None)
    assert (installation.namespace, installation.service) == (NS, f"{NS}/gpushare-webhook")
    assert installation.endpoints == 2
    assert fake.writes == []


async def test_it_is_found_where_its_account_is_though_the_usual_place_alone_can_be_read() -> None:
    fake = FakeApi()
    fake.forbidden.add("apis/apps/v1/deployments")
    metadata = {"name": "gpushare-controller", "namespace": "ops"}
    fake.put("apis/apps/v1/namespaces/ops/deployments", {"items": [{"metadata": metadata}]})
    fake.put(
        "apis/rbac.authorization.k8s.io/v1/clusterrolebindings/gpushare-controller",
        {"subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "ops"}]},
    )
    async with fake.connected() as api:
        installation = await read_installation(api, await list_deployments(api), None)
    assert not isinstance(installation.deployments, Unseen)
    assert [each.namespace for each in installation.deployments] == ["ops"]


def test_each_variable_is_a_setting_of_the_operators() -> None:
    named = {variable.removeprefix(SETTINGS_PREFIX).lower() for variable in Variable}
    assert named <= Settings.model_fields.keys()
