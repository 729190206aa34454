"""`gpushare doctor` against a real API server: a healthy installation, and what is broken in it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.installation import Installation
from gpushare.cli.exits import Exit
from gpushare.core.doctor.grants import Scope, list_grants
from tests.kit.bench import Bench
from tests.kit.cluster.command_line import CommandResult, expect_error, run_command
from tests.kit.cluster.expect import expect_pool_ready
from tests.kit.cluster.rbac_rights import list_rights
from tests.kit.cluster.users import as_user
from tests.kit.values.manifests import build_pool

Json = dict[str, Any]

DEPLOYMENTS = "/apis/apps/v1/deployments"


@dataclass(frozen=True)
class Scene:
    """A cluster with two nodes that share, in a pool that is ready."""

    bench: Bench
    folder: Path

    def run(self, *arguments: str, kubeconfig: Path | None = None) -> CommandResult:
        kubeconfig = kubeconfig or self.bench.cluster.kubeconfig
        return run_command("doctor", *arguments, kubeconfig=kubeconfig)

    def find(self, kubeconfig: Path | None = None) -> "Found":
        """What it finds, as data; its exit code says whether there are errors."""
        ended = self.run("-o", "json", kubeconfig=kubeconfig)
        document = json.loads(ended.out)
        errors = document["counts"]["error"]
        assert (ended.code, ended.err) == (Exit.ERRORS_FOUND if errors else Exit.OK, "")
        return Found(document["findings"])


class Found(list[Json]):
    """Findings of one look."""

    def of(self, code: str) -> list[Json]:
        return [each for each in self if each["code"] == code]

    def codes_of(self, *severities: str) -> set[str]:
        return {each["code"] for each in self if each["severity"] in severities}


@pytest.fixture(scope="module")
def scene(installed: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes("n1", "n2", cards=2)
    installed.operators.standard()
    installed.create_pool(build_pool())
    expect_pool_ready(installed, nodes=2)
    yield Scene(installed, tmp_path_factory.mktemp("doctor"))
    installed.clear()


def test_a_healthy_installation_has_no_error_and_trials_store_nothing(scene: Scene) -> None:
    before = scene.bench.pods(), scene.bench.call("GET", DEPLOYMENTS)["items"]
    found = scene.find()
    assert found.codes_of("error", "warning") == set(), found
    assert found.codes_of("ok") == {
        "ControllerActive", "CrdCurrent", "WebhookConfigured", "CertificateTrusted",
        "WebhookAnswers", "RightsComplete", "YourRights", "PluginsServe", "PoolsAsPlanned",
    }  # fmt: skip
    assert found.codes_of("info") == {"NoDeployments", "SetupAssumed"}
    assert len(found.of("WebhookAnswers")) == 2
    assert (scene.bench.pods(), scene.bench.call("GET", DEPLOYMENTS)["items"]) == before


def test_the_rights_that_it_looks_for_are_the_charts(scene: Scene) -> None:
    values = {"eviction.enabled": "true", "deploy": "true"}
    installation = Installation(scene.bench.cluster, values, all_in_one=False, teardown_jobs=True)
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


@pytest.mark.parametrize(
    ("namespace", "told"),
    [
        ("gpushare-sytem", "did you mean gpushare-system?"),
        ("default", "there is one in gpushare-system"),
    ],
)
def test_an_operator_in_another_namespace_is_a_slip(
    scene: Scene, namespace: str, told: str
) -> None:
    ended = scene.run("--operator-namespace", namespace)
    expect_error(ended, Exit.NOT_FOUND, f"namespace {namespace}", told)


def test_without_rights_each_part_is_skipped_and_the_right_named(
    scene: Scene, tmp_path: Path
) -> None:
    with as_user(scene.bench, tmp_path) as visitor:
        found = scene.find(kubeconfig=visitor)
    assert {each["code"] for each in found} == {"Skipped", "SetupAssumed", "YourRightsMissing"}
    skipped = {each["object"]: each["message"] for each in found.of("Skipped")}
    assert 'cannot list resource "nodes"' in skipped["nodes"]
    assert 'cannot get resource "leases"' in skipped["lease"]
    assert "list nodes" in " ".join(each["message"] for each in found.of("YourRightsMissing"))
