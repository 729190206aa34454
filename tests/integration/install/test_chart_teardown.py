"""What may run in the namespace of teardowns: the operator's Jobs, and nothing else of anybody."""

from collections.abc import Iterator

import pytest
import yaml

from devcluster.apiserver import ApiError
from devcluster.errors import CommandError
from devcluster.installation import TEARDOWN_IMAGE, TEARDOWN_NAMESPACE
from gpushare.core.snapshot.actions import CreateJob, JobPhase
from gpushare.render.teardown import render_teardown_job
from tests.integration.chart.chart_values import Values, read_settings, render_named, render_objects
from tests.integration.install.stolen_token import StolenToken
from tests.integration.install.teardown_job_attacks import (
    ATTACKS,
    MANAGED,
    POD_ATTACKS,
    build_teardown_pod,
)
from tests.kit.bench import Bench, Json
from tests.kit.cluster.expect import expect, expect_gone, find_refusal
from tests.kit.cluster.installations import teardown_jobs_allowed
from tests.kit.cluster.teardown_jobs import TEARDOWN_JOBS, TEARDOWN_PODS, build_teardown_job

REFUSED = "ValidatingAdmissionPolicy 'gpushare-teardown-jobs'"
CLOSED = "ValidatingAdmissionPolicy 'gpushare-teardown-access'"
DIGEST = f"sha256:{'0' * 64}"
SWITCHED_ON: Values = {
    "teardown.jobs.enabled": True,
    "teardown.jobs.namespace": "apart",
    "teardown.jobs.image.repository": "example.com:5000/shell",
    "teardown.jobs.image.digest": DIGEST,
}
DAEMONSET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}
LONGEST = f"{'n' * 60}.{'x' * 60}.example.com"
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@pytest.fixture(scope="module")
def _allowed(installed: Bench) -> Iterator[None]:
    with teardown_jobs_allowed(installed):
        expect_in_force(installed)
        yield


@pytest.fixture
def allowed(_allowed: None, installed: Bench) -> Bench:
    """An installation with the switch on; what its tests send is not kept."""
    return installed


def expect_in_force(bench: Bench) -> None:
    """Until the API server has taken up both policies; it does so a moment after their creation."""
    attack, _ = ATTACKS["another image"]
    expect(bench, "Jobs are checked", lambda: REFUSED in refusal_of(bench, TEARDOWN_JOBS, attack))
    expect(bench, "nobody gets in", lambda: CLOSED in entry_refusal(bench))


def entry_refusal(bench: Bench) -> str:
    """Why nobody gets into a pod that isn't even there."""
    with pytest.raises(ApiError) as refusal:
        bench.call("POST", f"{TEARDOWN_PODS}/any/exec?command=id")
    return str(refusal.value)


def refusal_of(bench: Bench, path: str, body: Json) -> str:
    """Why the cluster's administrator may not create that; nothing where they may."""
    return find_refusal(lambda: bench.call("POST", f"{path}?dryRun=All", body))


# What is right.


@pytest.mark.parametrize(
    ("phase", "leaves_sentinel"),
    [(JobPhase.UNINSTALL, False), (JobPhase.UNINSTALL, True), (JobPhase.VERIFY, False)],
)
def test_what_the_operator_renders_is_admitted(
    allowed: Bench, phase: JobPhase, leaves_sentinel: bool
) -> None:
    wanted = CreateJob(LONGEST, f"gpushare-{phase}-1a2b", phase, leaves_sentinel)
    job = render_teardown_job(
        wanted, pool="training", namespace=TEARDOWN_NAMESPACE, image=TEARDOWN_IMAGE
    )
    assert refusal_of(allowed, TEARDOWN_JOBS, job) == ""


def test_the_api_server_finds_no_fault_with_the_types_in_a_policy(allowed: Bench) -> None:
    def probe() -> list[Json]:
        policies: list[Json] = allowed.call("GET", _POLICIES)["items"]
        checked = [each["status"] for each in policies if "typeChecking" in each.get("status", {})]
        return checked if len(checked) == len(policies) else []

    checked = expect(allowed, "the policies are checked", probe)
    assert [each for each in checked if each["typeChecking"]] == []


# What is not.


@pytest.fixture(scope="module")
def controller(_allowed: None, installed: Bench) -> StolenToken:
    """Whoever holds a token of the one account that may create Jobs there."""
    return StolenToken(installed, "gpushare-controller")


@pytest.mark.parametrize(("job", "message"), ATTACKS.values(), ids=list(ATTACKS))
def test_a_job_that_is_more_than_that_is_refused(
    controller: StolenToken, job: Json, message: str
) -> None:
    _, refusal = controller.send("POST", f"{TEARDOWN_JOBS}?dryRun=All", job)
    assert REFUSED in refusal
    assert message in refusal


@pytest.mark.parametrize(("job", "message"), POD_ATTACKS.values(), ids=list(POD_ATTACKS))
def test_so_is_a_pod_that_poses_as_its_jobs(allowed: Bench, job: Json, message: str) -> None:
    refusal = refusal_of(allowed, TEARDOWN_PODS, build_teardown_pod(job))
    assert REFUSED in refusal
    assert message in refusal


@pytest.mark.parametrize(
    "owners",
    [[], [{**DAEMONSET, "controller": True}]],
    ids=["nobody's", "a DaemonSet's"],
)
def test_a_pod_of_no_job_is_refused_however_right_it_is(allowed: Bench, owners: list[Json]) -> None:
    pod = build_teardown_pod(build_teardown_job(), ownerReferences=owners)
    refusal = refusal_of(allowed, TEARDOWN_PODS, pod)
    assert REFUSED in refusal
    assert "Only Jobs may create pods" in refusal


def test_no_job_is_left_to_another_controller(allowed: Bench) -> None:
    if "must not set: spec.managedBy" not in refusal_of(allowed, TEARDOWN_JOBS, MANAGED):
        # Before 1.32 the API server drops the field, and no policy sees it.
        admitted = allowed.call("POST", f"{TEARDOWN_JOBS}?dryRun=All", MANAGED)
        assert "managedBy" not in admitted["spec"]


def test_other_namespaces_are_none_of_its_business(allowed: Bench) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    for job, _ in ATTACKS.values():
        assert refusal_of(allowed, path, {**job, "metadata": {"name": "elsewhere"}}) == ""


# What has been made.


@pytest.fixture
def job(_allowed: None, bench: Bench) -> Iterator[str]:
    """The path of a Job that is there; by the end it is gone, its pods with it."""
    bench.add_nodes("n1", faults={"job_hangs": True})
    bench.call("POST", TEARDOWN_JOBS, build_teardown_job("verify"))
    path = f"{TEARDOWN_JOBS}/teardown-n1"
    yield path
    bench.call("DELETE", path, {"propagationPolicy": "Background"})
    expect_gone(bench, path)
    expect(bench, "its pods are gone", lambda: not bench.pods(TEARDOWN_PODS))


@pytest.fixture
def pod(allowed: Bench, job: str) -> str:
    """The path of its pod, as the Job controller made it and the scheduler placed it."""

    def find_placed() -> str | None:
        placed = [pod for pod in allowed.pods(TEARDOWN_PODS) if pod["spec"].get("nodeName")]
        assert all(pod["spec"]["nodeName"] == "n1" for pod in placed)
        return placed[0]["metadata"]["name"] if placed else None

    return f"{TEARDOWN_PODS}/{expect(allowed, f'{job} has its pod', find_placed)}"


@pytest.mark.parametrize("change", [{"suspend": True}, {"activeDeadlineSeconds": 9999}], ids=str)
def test_a_job_is_not_changed_any_more(allowed: Bench, job: str, change: Json) -> None:
    with pytest.raises(ApiError, match="must not be changed after their creation") as refusal:
        allowed.call("PATCH", job, {"spec": change})
    assert REFUSED in str(refusal.value)


def test_its_pod_gets_no_other_image(allowed: Bench, pod: str) -> None:
    container = {**allowed.call("GET", pod)["spec"]["containers"][0], "image": "attacker:1"}
    with pytest.raises(ApiError, match="must not be changed after their creation"):
        allowed.call("PATCH", pod, {"spec": {"containers": [container]}})


@pytest.mark.parametrize("access", ["exec", "attach", "portforward", "proxy"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nobody_gets_into_its_pod(allowed: Bench, pod: str, access: str, method: str) -> None:
    with pytest.raises(ApiError, match="Read its log instead") as refusal:
        allowed.call(method, f"{pod}/{access}")
    assert CLOSED in str(refusal.value)


def test_no_container_joins_its_pod(allowed: Bench, pod: str) -> None:
    initializing = {"name": "debugger", "image": "attacker:1", "targetContainerName": "teardown"}
    with pytest.raises(ApiError, match="Read its log instead"):
        allowed.call(
            "PATCH", f"{pod}/ephemeralcontainers", {"spec": {"ephemeralContainers": [initializing]}}
        )


def test_an_older_releases_job_can_still_end(allowed: Bench, pod: str) -> None:
    installation = allowed.operators.installation

    def is_over() -> bool:
        return "shell:v2" in refusal_of(allowed, TEARDOWN_JOBS, build_teardown_job())

    installation.values = {"teardown.jobs.image.tag": "v2"}
    installation.apply()
    try:
        expect(allowed, "v1 is over", is_over)
        # As the Job controller does when it has counted the pod.
        allowed.call("PATCH", pod, {"metadata": {"finalizers": None}})
        assert "finalizers" not in allowed.call("GET", pod)["metadata"]
    finally:
        installation.values = {}
        installation.apply()
        expect(allowed, "v1 is back", lambda: not is_over())


# The switch.


def test_without_the_switch_there_is_no_trace_of_it(installed: Bench) -> None:
    objects = render_objects(installed.cluster, {"crds.install": False})
    assert "teardown" not in yaml.safe_dump(objects).lower()


def test_with_it_the_controller_is_told_and_the_namespace_is_set_apart(installed: Bench) -> None:
    objects = render_named(installed.cluster, {**SWITCHED_ON, "memoryUnit": "MiB"})

    def tell(role: str) -> dict[str, str]:
        env = read_settings(objects, role)
        return {key: env[key] for key in env if "TEARDOWN" in key or "MEMORY_UNIT" in key}

    assert tell("controller") == {
        "GPUSHARE_MEMORY_UNIT": "MiB",
        "GPUSHARE_ALLOW_TEARDOWN_JOBS": "true",
        "GPUSHARE_TEARDOWN_NAMESPACE": "apart",
        "GPUSHARE_TEARDOWN_IMAGE": f"example.com:5000/shell@{DIGEST}",
    }
    assert not [key for key in tell("webhook") if "TEARDOWN" in key]
    labels = objects["Namespace", "apart"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    for webhook in objects["MutatingWebhookConfiguration", "gpushare-webhook"]["webhooks"]:
        spared = webhook["namespaceSelector"]["matchExpressions"][0]["values"]
        assert spared == ["kube-system", "gpushare-system", "apart"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"teardown.jobs.image.digest": ""}, "needs teardown.jobs.image"),
        ({"teardown.jobs.image.repository": ""}, "needs teardown.jobs.image"),
        ({"teardown.jobs.namespace": "gpushare-system"}, "must contain only teardown Jobs"),
        ({"teardown.jobs.namespace": "kube-system"}, "must contain only teardown Jobs"),
        ({"teardown.jobs.namespace": "Not.A.Name"}, "the schema"),
        ({"teardown.jobs.image.digest": "sha256:0"}, "the schema"),
        ({"memoryUnit": "GB"}, "the schema"),
    ],
    ids=str,
)
def test_helm_refuses_what_would_not_be_safe(
    installed: Bench, values: Values, message: str
) -> None:
    with pytest.raises(CommandError, match=message):
        render_objects(installed.cluster, {**SWITCHED_ON, **values})
