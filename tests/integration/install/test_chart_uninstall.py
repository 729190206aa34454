"""The chart's hook of `helm uninstall`, as Helm renders it and the API server judges it."""

from collections.abc import Mapping

import pytest

from tests.integration.chart.chart_values import expect_no_mesh
from tests.integration.install.uninstall_hook import HOOK, POOLS_GO, find_job, render_hook
from tests.kit.bench import Bench, Json

STAY: dict[str, str] = {}
PLACED = {
    "nodeSelector.disk": "ssd",
    "tolerations[0].operator": "Exists",
    "imagePullSecrets[0].name": "registry",
    "image.repository": "registry.example.com/gpushare",
    "image.digest": f"sha256:{'0' * 64}",
}
KINDS = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"]
MADE_BY_THE_PROGRAM = {("Lease", "gpushare-controller"), ("Secret", "gpushare-webhook-tls")}


def pod_of(bench: Bench, values: Mapping[str, str]) -> Json:
    pod: Json = find_job(render_hook(bench, values))["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize(
    ("values", "event", "fate"),
    [
        (STAY, "post-delete", "keep"),
        (POOLS_GO, "pre-delete", "delete"),
        # Of a CRD that is not the release's, Helm removes nothing.
        ({**POOLS_GO, "crds.install": "false"}, "post-delete", "keep"),
    ],
    ids=["stay", "go", "CRD of others"],
)
def test_pools_are_seen_to_while_a_controller_is_there_if_it_takes_one(
    installed: Bench, values: dict[str, str], event: str, fate: str
) -> None:
    objects = [each for each in render_hook(installed, values) if each["kind"] in KINDS]
    assert [each["kind"] for each in objects] == KINDS
    assert {each["metadata"]["annotations"][HOOK] for each in objects} == {event}
    (container,) = pod_of(installed, values)["containers"]
    assert container["args"] == ["uninstall", f"--pools={fate}", "--timeout-seconds=210"]


@pytest.mark.parametrize("values", [STAY, POOLS_GO], ids=["stay", "go"])
def test_what_the_program_made_goes_when_it_has_gone(
    installed: Bench, values: dict[str, str]
) -> None:
    hook = render_hook(installed, values)
    made = [each for each in hook if each["kind"] not in KINDS]
    # Helm takes away what came before a hook that fails, and begins none after it.
    assert hook[: len(made)] == made
    assert {(each["kind"], each["metadata"]["name"]) for each in made} == MADE_BY_THE_PROGRAM
    for each in made:
        notes = each["metadata"]["annotations"]
        assert notes[HOOK] == "post-delete"
        assert notes[f"{HOOK}-delete-policy"] == "before-hook-creation,hook-succeeded"


@pytest.mark.parametrize("mode", ["provided", "cert-manager"])
def test_a_certificate_that_somebody_else_made_is_left_to_them(installed: Bench, mode: str) -> None:
    objects = render_hook(installed, {"webhook.certificate.mode": mode})
    assert "Secret" not in {each["kind"] for each in objects}


@pytest.mark.parametrize("values", [{"deploy": "false"}, {"uninstall.hook": "false"}], ids=str)
def test_there_is_no_hook_where_none_can_run(installed: Bench, values: dict[str, str]) -> None:
    assert render_hook(installed, values) == []


def test_it_has_the_time_that_the_program_takes_and_helm_allows_by_itself(installed: Bench) -> None:
    job = find_job(render_hook(installed, {"uninstall.timeoutSeconds": "30"}))["spec"]
    assert job["template"]["spec"]["containers"][0]["args"][-1] == "--timeout-seconds=30"
    assert job["activeDeadlineSeconds"] == 90
    # What it said when it gave up would be said again by each pod that follows.
    (rule,) = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [1])


def test_its_pod_runs_where_the_others_may(installed: Bench) -> None:
    pod = pod_of(installed, PLACED)
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["containers"][0]["image"] == f"registry.example.com/gpushare@sha256:{'0' * 64}"


def test_its_pod_ends_in_a_namespace_with_a_service_mesh(installed: Bench) -> None:
    expect_no_mesh(find_job(render_hook(installed, STAY))["spec"]["template"])


def test_its_pod_asks_for_what_a_quota_of_the_namespace_wants(installed: Bench) -> None:
    pod = pod_of(installed, {"uninstall.resources.limits.cpu": "1"})
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"cpu": 1, "memory": "256Mi"}


def test_in_a_closed_namespace_it_reaches_the_api_server_when_the_release_has_gone(
    installed: Bench,
) -> None:
    hook = render_hook(installed, {"networkPolicy.enabled": "true"})
    (policy,) = (each for each in hook if each["kind"] == "NetworkPolicy")
    labels = find_job(hook)["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert {"protocol": "TCP", "port": 6443} in policy["spec"]["egress"][1]["ports"]
    assert hook.index(policy) < hook.index(find_job(hook))


def test_afterwards_it_asks_for_no_priority_that_would_take_the_charts_quota(
    installed: Bench,
) -> None:
    assert "priorityClassName" not in pod_of(installed, STAY)
    assert pod_of(installed, POOLS_GO)["priorityClassName"] == "system-cluster-critical"
