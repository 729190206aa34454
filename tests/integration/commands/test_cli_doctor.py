"""`gpushare doctor` against a real API server: a healthy installation, and what is broken in it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.installation import Installation
from gpushare.cli.exit_codes import Exit
from gpushare.core.analysis.doctor.grants import Scope, list_grants
from tests.kit.bench import Bench
from tests.kit.cluster.command_line import expect_error, run_command
from tests.kit.cluster.expect import expect_pool_ready
from tests.kit.cluster.rbac_rights import list_rights
from tests.kit.cluster.users import as_user
from tests.kit.values.manifests import build_pool

Json = dict[str, Any]

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


def test_the_rights_that_it_looks_for_are_the_charts(healthy: Bench) -> None:
    values = {"eviction.enabled": "true", "deploy": "true"}
    installation = Installation(healthy.cluster, values, all_in_one=False, teardown_jobs=True)
    manifests = [each for each in yaml.safe_load_all(installation.render()) if each]
    settings = {
        each["name"]: each["value"]
        for manifest in manifests
        if manifest["kind"] == "Deployment"
        for each in manifest["spec"]["template"]["spec"]["containers"][0]["env"]
        if "value" in each
    }
    granted = {
        (right.role, right.namespace, right.group, right.resource, right.verb, right.name)
        for right in list_rights(manifests)
        if "uninstall" not in right.role
    }
    places = {
        Scope.CLUSTER: ("ClusterRole", ""),
        Scope.INSTALLATION: ("Role", "gpushare-system"),
        Scope.PLUGINS: ("Role", "kube-system"),
        Scope.TEARDOWN: ("Role", "gpushare-teardown"),
        Scope.EXTENDER: ("Role", "kube-system"),
    }
    looked_for = {
        (f"{kind} {grant.role}", namespace, need.group, need.resource, verb, need.name)
        for grant in list_grants(settings)
        for kind, namespace in [places[grant.scope]]
        for need in grant.needs
        for verb in need.verbs
    }
    assert granted == looked_for


def test_an_operator_in_another_namespace_is_a_slip(healthy: Bench) -> None:
    elsewhere = ("doctor", "--operator-namespace", "default")
    ended = run_command(*elsewhere, kubeconfig=healthy.cluster.kubeconfig)
    expect_error(ended, Exit.NOT_FOUND, "namespace default", "there is one in gpushare-system")


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
