"""A platform that gives each namespace a range of users, as OpenShift does; a policy plays that."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from devcluster.installation import NAMESPACE
from devcluster.release import Release
from tests.integration.chart.chart_values import render_objects
from tests.kit.bench import Bench, Json
from tests.kit.cluster.dry_run_pods import expect_routed
from tests.kit.cluster.expect import expect, expect_pool_ready, find_refusal
from tests.kit.cluster.helm_release import GPU_NODES, expect_left, start_bare_cluster
from tests.kit.cluster.object_diff import take_inventory
from tests.kit.values.manifests import build_pool

FIRST_USER, USERS = 1_000_680_000, 10_000
SENTENCE = "the user is not of the namespace's range"
_API = "/apis/admissionregistration.k8s.io/v1"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture
def place(tmp_path: Any) -> Iterator[Bench]:
    with start_bare_cluster("assigned-users", tmp_path / "cluster") as bench:
        constrain_users(bench)
        yield bench


def constrain_users(bench: Bench) -> None:
    """As the SecurityContextConstraints `restricted-v2`: a pod names no user, or one of the range
    that the platform would give it; and it is not privileged."""
    of_pod = _allow("object.spec")
    of_containers = f"object.spec.containers.all(c, {_allow('c')})"
    is_plain = "object.spec.containers.all(c, !c.?securityContext.?privileged.orValue(false))"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{**rule, "resources": ["pods"]}]},
        "validations": [
            {"expression": each, "message": SENTENCE} for each in (of_pod, of_containers, is_plain)
        ],
    }
    of_the_namespace = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    binding = {
        "policyName": "users",
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": of_the_namespace},
    }
    for kind, spec in (("policies", policy), ("policybindings", binding)):
        path = f"{_API}/validatingadmission{kind}"
        bench.call("POST", path, {"metadata": {"name": "users"}, "spec": spec})
    pinned = {"name": "c", "image": "i", "securityContext": {"runAsUser": 65532}}
    expect(bench, "it is there", lambda: SENTENCE in ask(bench, {"containers": [pinned]}))


def _allow(what: str) -> str:
    user = f"{what}.?securityContext.?runAsUser.orValue({FIRST_USER})"
    return f"{user} >= {FIRST_USER} && {user} < {FIRST_USER + USERS}"


def ask(bench: Bench, spec: Json) -> str:
    """Why such a pod is refused; nothing where it is not. The account is none of its business."""
    pod = {"metadata": {"name": "probe"}, "spec": {**spec, "serviceAccountName": "default"}}
    return find_refusal(lambda: bench.call("POST", f"{_PODS}?dryRun=All", pod))


def list_pod_specs(objects: list[Json]) -> dict[str, Json]:
    """The pods of all Deployments and Jobs, hooks included, by kind and name."""
    return {
        f"{each['kind']}/{each['metadata']['name']}": each["spec"]["template"]["spec"]
        for each in objects
        if each["kind"] in ("Deployment", "Job")
    }


def test_each_pod_of_the_chart_runs_as_a_user_that_the_platform_assigns(place: Bench) -> None:
    for keep, is_fixed in product((True, False), repeat=2):
        values = {"fixedUser": is_fixed, "crds.keep": keep}
        specs = list_pod_specs(render_objects(place.cluster, values))
        assert len(specs) == 3
        refused = {name for name, spec in specs.items() if SENTENCE in ask(place, spec)}
        assert refused == (specs.keys() if is_fixed else set())


@pytest.mark.timeout(600)
def test_a_release_without_a_fixed_user_is_installed_and_removed_there(place: Bench) -> None:
    before = take_inventory(place.cluster)
    release = Release(place.cluster, {"fixedUser": False, "crds": {"keep": False}})
    release.install()
    place.create_pool(build_pool())
    expect_pool_ready(place, nodes=len(GPU_NODES))
    expect_routed(place)
    release.uninstall()
    expect_left(place, before, set())
