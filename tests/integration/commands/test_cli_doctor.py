"""`gpushare doctor` against a real API server: a healthy installation, and what is broken in it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devcluster.installation import NAMESPACE, Installation
from gpushare.analysis.doctor import chart
from gpushare.analysis.doctor.webhook import judge_configuration
from gpushare.cli.exit_codes import Exit
from tests.kit.bench import Bench, Json
from tests.kit.cluster.command_line import expect_error, run_command
from tests.kit.cluster.expect import expect_pool_ready
from tests.kit.cluster.rbac_rights import list_rights
from tests.kit.cluster.users import as_user
from tests.kit.values.manifests import build_pool
from tools.chart_objects import render_objects

DEPLOYMENTS = "/apis/apps/v1/deployments"


def examine(kubeconfig: Path) -> list[Json]:
    """What it finds; its exit code says whether there are errors."""
    ended = run_command("doctor", "-o", "json", kubeconfig=kubeconfig)
    document = json.loads(ended.out)
    errors = document["counts"]["error"]
    assert (ended.code, ended.err) == (Exit.ERRORS_FOUND if errors else Exit.OK, "")
    findings: list[Json] = document["findings"]
    return findings


@pytest.fixture(scope="module")
def healthy(installed: Bench) -> Iterator[Bench]:
    """A cluster with two nodes that share, in a pool that is ready."""
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes("n1", "n2", cards=2)
    installed.operators.standard()
    installed.create_pool(build_pool())
    expect_pool_ready(installed, nodes=2)
    yield installed
    installed.clear()


def test_a_healthy_installation_has_no_error_and_trials_store_nothing(healthy: Bench) -> None:
    before = healthy.pods(), healthy.call("GET", DEPLOYMENTS)["items"]
    findings = examine(healthy.cluster.kubeconfig)
    assert sorted((each["severity"], each["code"]) for each in findings) == [
        ("info", "NoDeployments"), ("info", "SetupAssumed"), ("ok", "CertificateTrusted"),
        ("ok", "ControllerActive"), ("ok", "CrdCurrent"), ("ok", "PluginsServe"),
        ("ok", "PoolsAsPlanned"), ("ok", "RightsComplete"), ("ok", "WebhookAnswers"),
        ("ok", "WebhookAnswers"), ("ok", "WebhookConfigured"), ("ok", "YourRights"),
    ]  # fmt: skip
    assert (healthy.pods(), healthy.call("GET", DEPLOYMENTS)["items"]) == before


def test_the_chart_that_it_knows_is_the_chart() -> None:
    text = Path(chart.__file__).with_name("chart.json").read_text()
    assert text == render_objects(), "chart.json is stale; run `make chart-objects`"


@pytest.mark.parametrize(
    "values",
    [
        {"eviction.enabled": "true"},
        {"pluginNamespace": "gpu-plugins", "webhook.failurePolicy": "Fail"},
        {"webhook.certificate.mode": "provided", "webhook.timeoutSeconds": "7"},
        {"webhook.certificate.mode": "cert-manager"},
    ],
    ids=["eviction", "elsewhere", "provided", "cert-manager"],
)
@pytest.mark.parametrize("teardown_jobs", [True, False])
def test_what_it_looks_for_is_what_the_chart_makes_of_values(
    healthy: Bench, values: dict[str, str], teardown_jobs: bool
) -> None:
    values = {"deploy": "true", "uninstall.hook": "false", **values}
    installation = Installation(
        healthy.cluster, values, all_in_one=False, teardown_jobs=teardown_jobs
    )
    manifests = [each for each in yaml.safe_load_all(installation.render()) if each]
    settings = {
        each["name"]: each.get("value")
        for manifest in manifests
        if manifest["kind"] == "Deployment"
        for each in manifest["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    granted = {
        (
            right.role.split()[1],
            right.namespace,
            account,
            right.group,
            right.resource,
            right.verb,
            right.name,
        )
        for right in list_rights(manifests)
        for account in right.users
    }
    looked_for = {
        (role.name, role.namespace, f"system:serviceaccount:{NAMESPACE}:{role.account}",
         need.group, need.resource, verb, need.name)
        for role in chart.list_roles(NAMESPACE, settings)
        for need in role.needs
        for verb in need.verbs
    }  # fmt: skip
    assert granted == looked_for
    (configuration,) = (m for m in manifests if m["kind"] == "MutatingWebhookConfiguration")
    for webhook in configuration["webhooks"]:
        webhook |= {"objectSelector": {}, "reinvocationPolicy": "Never"} | webhook
    (found,) = judge_configuration(configuration, NAMESPACE)
    assert found.code == "WebhookConfigured"


def test_an_operator_in_another_namespace_is_a_slip(healthy: Bench) -> None:
    elsewhere = ("doctor", "--operator-namespace", "default")
    ended = run_command(*elsewhere, kubeconfig=healthy.cluster.kubeconfig)
    expect_error(ended, Exit.NOT_FOUND, "namespace default", "gpushare-system")


def test_without_rights_each_part_is_skipped_and_the_right_named(
    healthy: Bench, tmp_path: Path
) -> None:
    with as_user(healthy, tmp_path) as visitor:
        findings = examine(visitor)
    assert {each["code"] for each in findings} == {"Skipped", "SetupAssumed", "YourRightsMissing"}
    told = {each["object"]: each["message"] for each in findings if each["code"] == "Skipped"}
    assert 'cannot list resource "nodes"' in told["nodes"]
    assert 'cannot get resource "leases"' in told["lease"]
    missing = [each["message"] for each in findings if each["code"] == "YourRightsMissing"]
    assert "list nodes" in " ".join(missing)
