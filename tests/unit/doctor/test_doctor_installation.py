"""Findings about the operator's own processes, its CRD, and what it is allowed."""

import copy
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.crd import build_crd
from gpushare.api.variables import Variable
from gpushare.core.doctor.crd import judge_crd
from gpushare.core.doctor.finding import Code, Severity, Unseen
from gpushare.core.doctor.grants import (
    Grant,
    Need,
    Scope,
    list_grants,
)
from gpushare.core.doctor.installation import (
    Deployment,
    Leader,
    judge_deployments,
    judge_leader,
)
from gpushare.core.doctor.page import Installation, judge_installation
from gpushare.core.doctor.rights import YOURS, Held, judge_accounts, judge_person
from gpushare.kube.deployments import list_deployments, parse_deployment
from gpushare.kube.installations import read_installation
from gpushare.names import SETTINGS_PREFIX
from gpushare.settings import Settings
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.objects import NOW
from tests.unit.doctor.expect_findings import expect_one, list_codes

Json = dict[str, Any]
NS = "gpushare-system"
FORBIDDEN = Unseen("a right is missing: no")
WARNING, ERROR, OK, INFO = Severity.WARNING, Severity.ERROR, Severity.OK, Severity.INFO


def a_deployment(*, wanted: int = 2, ready: int = 2, version: str = "1.0") -> Deployment:
    return Deployment(NS, "gpushare-controller", wanted, ready, version, "registry/op:1")


# Processes.


@pytest.mark.parametrize(
    ("ready", "code", "severity"),
    [
        (2, Code.OPERATOR_FOUND, OK),
        (1, Code.REPLICAS_MISSING, WARNING),
        (0, Code.OPERATOR_DOWN, ERROR),
    ],
)
def test_replicas_are_counted(ready: int, code: Code, severity: Severity) -> None:
    found = list(judge_deployments((a_deployment(ready=ready),), "1.0"))
    expect_one(found, code, severity, f"{ready} of 2 replicas")
    assert len(found) == 1


def test_another_version_than_the_programs_is_said() -> None:
    found = judge_deployments((a_deployment(version="0.9"),), "1.0")
    expect_one(found, Code.OTHER_VERSION, WARNING, "0.9", "1.0", "registry/op:1")


def test_an_installation_without_deployments_runs_elsewhere_or_is_a_rest() -> None:
    expect_one(judge_deployments((), "1.0"), Code.NO_DEPLOYMENTS, INFO)


def test_deployments_that_may_not_be_read_are_skipped() -> None:
    expect_one(judge_deployments(FORBIDDEN, "1.0"), Code.SKIPPED, INFO, "a right is missing")


@pytest.mark.parametrize(
    ("leader", "code"),
    [
        (Leader("op-1", NOW - timedelta(seconds=3)), Code.CONTROLLER_ACTIVE),
        (Leader("op-1", NOW - timedelta(minutes=5)), Code.CONTROLLER_SILENT),
        (Leader("op-1", NOW - timedelta(seconds=20), 10, 5), Code.CONTROLLER_ACTIVE),
        (Leader("op-1", NOW - timedelta(seconds=20), 10, 5.1), Code.CONTROLLER_SILENT),
        (Leader("", NOW), Code.CONTROLLER_SILENT),
        (Leader("op-1", None), Code.CONTROLLER_SILENT),
        (None, Code.CONTROLLER_SILENT),
        (FORBIDDEN, Code.SKIPPED),
    ],
)
def test_a_controller_is_at_work_where_the_lease_is_renewed(
    leader: Leader | Unseen | None, code: Code
) -> None:
    assert judge_leader(leader, NS, NOW).code is code


# The CRD.


def a_schema(crd: Json) -> Json:
    schema: Json = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def test_the_crd_of_this_program_is_current() -> None:
    assert judge_crd(build_crd(), build_crd()).code is Code.CRD_CURRENT


def test_words_of_a_crd_do_not_count() -> None:
    crd = build_crd()
    a_schema(crd)["description"] = "Something else."
    assert judge_crd(crd, build_crd()).code is Code.CRD_CURRENT


def test_fields_that_a_crd_lacks_are_named() -> None:
    crd = build_crd()
    del a_schema(crd)["properties"]["spec"]["properties"]["rollout"]["properties"]["canary"]
    del a_schema(crd)["properties"]["status"]["properties"]["isolation"]
    found = judge_crd(crd, build_crd())
    assert (found.code, found.message) == (
        Code.CRD_DIFFERS,
        "it lacks spec.rollout.canary, status.isolation",
    )


def test_what_a_crd_has_otherwise_is_named_inside_lists_too() -> None:
    crd = build_crd()
    expressions = a_schema(crd)["properties"]["spec"]["properties"]["nodes"]["properties"][
        "selector"
    ]["properties"]["matchExpressions"]
    expressions["items"]["properties"]["operator"]["enum"] = ["In"]
    found = judge_crd(crd, build_crd())
    assert found.message == "it has otherwise spec.nodes.selector.matchExpressions[].operator"


def test_fields_that_this_program_does_not_know_are_a_newer_ones() -> None:
    crd = build_crd()
    a_schema(crd)["properties"]["spec"]["properties"]["later"] = {"type": "string"}
    expect_one([judge_crd(crd, build_crd())], Code.CRD_NEWER, WARNING, "spec.later")


def test_a_crd_that_does_not_serve_the_version_differs() -> None:
    crd = build_crd()
    crd["spec"]["versions"][0]["served"] = False
    expect_one([judge_crd(crd, build_crd())], Code.CRD_DIFFERS, ERROR, "v1alpha1")


def test_a_crd_that_keeps_no_status_apart_differs() -> None:
    crd = build_crd()
    del crd["spec"]["versions"][0]["subresources"]
    expect_one([judge_crd(crd, build_crd())], Code.CRD_DIFFERS, ERROR, "subresource status")


def test_many_fields_are_not_all_listed() -> None:
    crd = build_crd()
    a_schema(crd)["properties"]["spec"]["properties"] = {}
    assert "and " in (told := judge_crd(crd, build_crd()).message)
    assert told.endswith(" more")


@pytest.mark.parametrize(("crd", "code"), [(None, Code.CRD_MISSING), (FORBIDDEN, Code.SKIPPED)])
def test_a_crd_that_is_not_there_or_not_seen(crd: Unseen | None, code: Code) -> None:
    assert judge_crd(crd, build_crd()).code is code


# Rights.


def hold(grant: Grant) -> Held:
    """As the chart gives it."""
    rules = tuple(
        {
            "apiGroups": [need.group],
            "resources": [need.resource],
            "verbs": list(need.verbs),
            **({"resourceNames": [need.name]} if need.name else {}),
        }
        for need in grant.needs
    )
    where = "" if grant.scope is Scope.CLUSTER else NS
    return Held(grant, where, rules, frozenset({(NS, grant.account)}))


def all_held(settings: Mapping[str, str]) -> list[Held]:
    return [hold(grant) for grant in list_grants(settings)]


FULL = {
    Variable.ALLOW_EVICTION: "true",
    Variable.ALLOW_TEARDOWN_JOBS: "true",
    Variable.CERTIFICATE_MODE: "self",
}


@pytest.mark.parametrize("settings", [{}, FULL])
def test_accounts_that_have_what_the_chart_gives_are_complete(settings: Mapping[str, str]) -> None:
    assert list_codes(judge_accounts(all_held(settings), NS)) == ["RightsComplete"]


def test_what_a_switch_needs_besides_is_looked_for() -> None:
    evicting: dict[str, str] = {Variable.ALLOW_EVICTION: "true"}
    held = [
        Held(grant, "", plain.rules, plain.subjects)
        for grant, plain in zip(list_grants(evicting), all_held({}), strict=True)
    ]
    found = judge_accounts(held, NS)
    expect_one(found, Code.RIGHTS_MISSING, ERROR, "may not create pods/eviction")


ONE = Grant("a", Scope.CLUSTER, "gpushare-controller", (Need("", "nodes", ("get", "patch")),))


@pytest.mark.parametrize(
    "rule",
    [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["patch", "get", "list"]},
    ],
)
def test_a_rule_may_hold_more(rule: Json) -> None:
    held = Held(ONE, "", (rule,), frozenset({(NS, "gpushare-controller")}))
    assert list_codes(judge_accounts([held], NS)) == ["RightsComplete"]


@pytest.mark.parametrize(
    ("rule", "lacks"),
    [
        ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}, "patch nodes"),
        ({"apiGroups": ["apps"], "resources": ["nodes"], "verbs": ["*"]}, "get, patch nodes"),
        (
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["*"], "resourceNames": ["n1"]},
            "get, patch nodes",
        ),
    ],
)
def test_a_rule_that_holds_less_is_said_by_verb(rule: Json, lacks: str) -> None:
    held = Held(ONE, "", (rule,), frozenset({(NS, "gpushare-controller")}))
    expect_one(judge_accounts([held], NS), Code.RIGHTS_MISSING, ERROR, f"may not {lacks}")


def test_a_role_that_is_missing_and_a_binding_of_others_are_said() -> None:
    rules = ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},)
    mine = frozenset({(NS, "gpushare-controller")})
    cases = {
        "it is not in the cluster": Held(ONE, "", None, mine),
        "no binding of its name": Held(ONE, "", rules, None),
        "does not name account": Held(ONE, "", rules, frozenset({("other", "x")})),
    }
    for told, held in cases.items():
        expect_one(judge_accounts([held], NS), Code.RIGHTS_MISSING, ERROR, told)


def test_roles_that_may_not_be_read_are_skipped_once_and_the_rest_is_judged() -> None:
    held = [Held(ONE, "", FORBIDDEN, FORBIDDEN), Held(ONE, "", None, FORBIDDEN)]
    assert list_codes(judge_accounts(held, NS)) == ["RightsMissing", "Skipped"]


def test_what_a_person_may_not_is_said_by_what_it_is_for() -> None:
    allowed = {right: right.verb != "patch" and right.resource != "pods" for right in YOURS}
    found = [each.message for each in judge_person(allowed)]
    assert all("Authorizations page" in each.remedy for each in judge_person(allowed))
    assert found == [
        "you may not list pods: the commands that read the cluster can't be used in full",
        "you may not patch gpusharepools: approve and retry of a pool can't be used in full",
        "you may not patch nodes: retry of a node can't be used in full",
    ]
    assert list_codes(judge_person(dict.fromkeys(YOURS, True))) == ["YourRights"]
    assert list_codes(judge_person(FORBIDDEN)) == ["Skipped"]


# All of it.


def an_installation(**parts: Any) -> Installation:
    values: Json = {
        "namespace": NS, "deployments": (), "leader": None, "crd": None, "configuration": None,
        "service": "", "endpoints": 0, "accounts": (),
    }  # fmt: skip
    return Installation(**(values | parts))


def test_a_cluster_with_nothing_of_the_operator_is_no_error() -> None:
    found = judge_installation(an_installation(), crd={}, version="1.0", now=NOW)
    assert list_codes(found) == ["NotInstalled"]


def test_where_only_the_crd_is_left_nobody_acts_on_pools_and_that_is_no_error() -> None:
    left = an_installation(crd=build_crd())
    found = judge_installation(left, crd=build_crd(), version="1.0", now=NOW)
    assert list_codes(found) == ["OnlyPoolsLeft", "CrdCurrent"]


def test_half_an_installation_is_one_that_does_not_work() -> None:
    half = an_installation(deployments=(a_deployment(),))
    found = judge_installation(half, crd=build_crd(), version="1.0", now=NOW)
    assert {"ControllerSilent", "CrdMissing", "WebhookMissing"} <= set(list_codes(found))


def test_what_may_not_be_read_is_not_said_to_be_missing() -> None:
    unseen = an_installation(crd=FORBIDDEN, configuration=FORBIDDEN)
    found = judge_installation(unseen, crd=build_crd(), version="1.0", now=NOW)
    assert list_codes(found) == ["Skipped", "Skipped"]
    assert [each.object for each in found] == ["crd", "webhook configuration"]


def test_settings_are_those_of_the_containers() -> None:
    raw: Json = {
        "metadata": {
            "namespace": NS, "name": "gpushare-webhook",
            "labels": {"app.kubernetes.io/version": "1.0"},
        },
        "spec": {
            "replicas": 3,
            "template": {
                "spec": {
                    "containers": [
                        {
                            "image": "registry/op:1",
                            "env": [
                                {"name": "GPUSHARE_MEMORY_UNIT", "value": "MiB"},
                                {"name": "GPUSHARE_NAMESPACE", "valueFrom": {}},
                            ],
                        }
                    ]
                }
            },
        },
        "status": {"readyReplicas": 1},
    }  # fmt: skip
    deployment = parse_deployment(raw)
    assert (deployment.wanted, deployment.ready, deployment.version) == (3, 1, "1.0")
    assert deployment.settings == {"GPUSHARE_MEMORY_UNIT": "MiB", "GPUSHARE_NAMESPACE": None}
    assert an_installation(deployments=(deployment,)).variables == {
        f"deployment {NS}/gpushare-webhook": deployment.settings
    }
    other = copy.deepcopy(raw)
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "registry:5000/op:v2.0.1"
    assert parse_deployment(other).version == "2.0.1"
    bare = copy.deepcopy(raw) | {"spec": {}, "status": {}}
    assert parse_deployment(bare).ready == 0


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
