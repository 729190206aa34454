"""The chart, installed by Helm on a real node: what its pods are there, and what befalls them."""

import copy
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from devcluster.apiserver import ApiError
from devcluster.errors import CommandError
from devcluster.installation import NAMESPACE, TEARDOWN_NAMESPACE
from devcluster.node.cluster import NodeCluster
from devcluster.node.release import DEV, REPOSITORY, NodeRelease
from devcluster.release import COMPONENTS
from gpushare.core.snapshot.actions import CreateJob, JobPhase
from gpushare.render.teardown import render_teardown_job
from tests.kit.bench import PODS, POOLS, Bench, Json
from tests.kit.cluster.audit_log import OURS
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.dry_run_pods import no_call_lost
from tests.kit.cluster.expect import expect
from tests.kit.cluster.helm_release import OUTLIVING, expect_left
from tests.kit.cluster.namespaces import expect_account
from tests.kit.cluster.object_diff import take_inventory
from tests.kit.cluster.replicas import LEASES, Replicas, measure_hand_over
from tests.kit.cluster.teardown_jobs import TEARDOWN_JOBS, TEARDOWN_PODS
from tests.node.conftest import given_release

PODS_PER_SECOND = 20
AFTER_A_CRASH_SECONDS = 15
AFTER_A_STOP_SECONDS = 3
LIFETIME_SECONDS = 30
STATUS = "print(open('/proc/1/status').read())"
MOUNTS = "print(open('/proc/mounts').read())"
CONTROLLER = f"{OURS}gpushare-controller"
POLICY = "ValidatingAdmissionPolicy 'gpushare-teardown-jobs'"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/gpushare-webhook-tls"


@pytest.fixture(scope="module")
def before(place: Bench) -> set[str]:
    """What is there before anything is installed."""
    place.cluster.kubectl("create", "namespace", NAMESPACE)
    expect_account(place, NAMESPACE)
    return take_inventory(place.cluster)


@pytest.fixture(scope="module")
def replicas(place: Bench, before: set[str]) -> Iterator[Replicas]:
    """The release with the chart's defaults but for certificates of a short life."""
    certificate = {"lifetimeSeconds": LIFETIME_SECONDS}
    release = NodeRelease(place.cluster, {"webhook": {"certificate": certificate}})
    yield given_release(place, release)
    if release.is_installed:
        release.uninstall()


def read(place: Bench, pod: str, program: str) -> str:
    return place.cluster.kubectl(
        "exec", pod, f"--namespace={NAMESPACE}", "--", "python", "-c", program
    )


# What runs.


def test_each_runs_without_a_name_a_capability_and_a_root_to_write_to(
    place: Bench, replicas: Replicas
) -> None:
    for pod in replicas.all:
        lines = read(place, pod, STATUS).splitlines()
        status = {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}
        assert set(status["Uid"]) == set(status["Gid"]) == {"65532"}
        assert {status[key][0] for key in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
        assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])
        root = next(line.split() for line in read(place, pod, MOUNTS).splitlines())
        assert (root[1], root[3].split(",")[0]) == ("/", "ro")


def test_each_uses_less_memory_than_its_limit_by_its_cgroup(
    place: Bench, cluster: NodeCluster, replicas: Replicas
) -> None:
    (node,) = cluster.nodes
    path = f"/api/v1/nodes/{node}/proxy/stats/summary"

    def find_usage() -> dict[str, int] | None:
        summary = json.loads(place.cluster.kubectl("get", "--raw", path))
        usage = {
            pod["podRef"]["name"]: container.get("memory", {}).get("workingSetBytes", 0)
            for pod in summary["pods"]
            for container in pod["containers"]
        }
        return usage if all(usage.get(name) for name in replicas.all) else None

    usage = expect(place, "the kubelet has measured every pod", find_usage)
    for component in COMPONENTS:
        for pod in replicas.release.pods(component):
            (container,) = pod["spec"]["containers"]
            limit_mib = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
            used_mib = usage[pod["metadata"]["name"]] / 2**20
            print(f"memory {component}={used_mib:.0f} MiB limit={limit_mib} MiB")
            # Room for what thousands of nodes take up besides.
            assert used_mib < limit_mib / 2


def test_the_doctor_finds_nothing_wrong(place: Bench, replicas: Replicas) -> None:
    ended = run_command("doctor", "-o", "json", kubeconfig=place.cluster.kubeconfig)
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)["findings"]
    of = {(each["code"], each["object"]) for each in found}
    assert {("OperatorFound", f"deployment {NAMESPACE}/gpushare-{c}") for c in COMPONENTS} <= of
    assert ("WebhookServed", f"service {NAMESPACE}/gpushare-webhook") in of
    assert {"WebhookAnswers", "RightsComplete", "CrdCurrent"} <= {code for code, _ in of}
    assert [each for each in found if each["severity"] in ("error", "warn")] == []


# Replicas go.


@pytest.mark.parametrize(
    ("befall", "comes_back", "within_seconds"),
    [
        pytest.param(Replicas.kill, True, AFTER_A_CRASH_SECONDS, id="its container is killed"),
        pytest.param(Replicas.lose, False, AFTER_A_CRASH_SECONDS, id="it is deleted at once"),
        pytest.param(Replicas.delete, False, AFTER_A_STOP_SECONDS, id="it is deleted"),
    ],
)
def test_where_the_active_controller_goes_somebody_holds_its_lease_in_time(
    place: Bench,
    replicas: Replicas,
    befall: Callable[[Replicas, str], None],
    comes_back: bool,
    within_seconds: float,
) -> None:
    replicas.expect_whole()
    active = replicas.active
    with place.watching(LEASES) as watch:
        gone_at = datetime.now(UTC)
        befall(replicas, active)
        seconds = measure_hand_over(place, watch, gone_at, but="" if comes_back else active)
    print(f"hand-over on a real node {befall.__name__}={seconds:.2f}")
    assert seconds < within_seconds


def test_a_webhook_deleted_under_load_costs_no_call_through_its_service(
    place: Bench, replicas: Replicas
) -> None:
    with no_call_lost(place, per_second=PODS_PER_SECOND):
        replicas.delete(replicas.names("webhook")[0])
        replicas.expect_whole()


def test_certificates_are_replaced_and_no_call_fails(place: Bench, replicas: Replicas) -> None:
    replicas.expect_whole()
    seen = {read_certificate(place)}

    def are_seen() -> bool:
        seen.add(read_certificate(place))
        return len(seen) > 2

    with no_call_lost(place, per_second=PODS_PER_SECOND):
        expect(place, "two others are stored", are_seen, within_seconds=2 * LIFETIME_SECONDS)


def read_certificate(place: Bench) -> str:
    certificate: str = place.call("GET", SECRET)["data"]["tls.crt"]
    return certificate


# A teardown's Job.


def test_a_teardowns_job_enters_the_node_and_does_nothing_else(
    place: Bench, replicas: Replicas
) -> None:
    image = {"repository": REPOSITORY, "tag": DEV}
    replicas.release.upgrade(teardown={"jobs": {"enabled": True, "image": image}})
    replicas.expect_whole()
    expect_account(place, TEARDOWN_NAMESPACE)
    wanted = CreateJob("node-1", "gpushare-verify-1a2b", JobPhase.VERIFY)
    job = render_teardown_job(
        wanted, pool="training", namespace=TEARDOWN_NAMESPACE, image=f"{REPOSITORY}:{DEV}"
    )
    other = copy.deepcopy(job)
    other["spec"]["template"]["spec"]["containers"][0]["command"][-2] = "id"
    expect(place, "another script is refused", lambda: POLICY in refuse(place, other))

    place.cluster.kubectl("create", f"--as={CONTROLLER}", "-f", "-", stdin=yaml.safe_dump(job))
    path = f"{TEARDOWN_JOBS}/{wanted.name}"

    def find_end() -> set[str]:
        conditions = place.call("GET", path)["status"].get("conditions", [])
        return {"Complete", "Failed"} & {each["type"] for each in conditions}

    ended = expect(place, "the Job ends", find_end)
    (pod,) = place.pods(TEARDOWN_PODS)
    said = place.cluster.kubectl(
        "logs", pod["metadata"]["name"], f"--namespace={TEARDOWN_NAMESPACE}"
    )
    # Both ways it has read the machine's own file, not the container's.
    knows = Path("/proc/modules").exists()
    assert ended == ({"Complete"} if knows else {"Failed"})
    assert ("no cGPU module is loaded" if knows else "cannot read /proc/modules") in said
    # No token, so the API server knows nobody there; and nobody gets in.
    assert not pod["spec"].get("volumes")
    with pytest.raises(ApiError, match="gpushare-teardown-access"):
        place.call("POST", f"{TEARDOWN_PODS}/{pod['metadata']['name']}/exec?command=id")
    place.call("DELETE", f"{path}?propagationPolicy=Foreground")
    expect(place, "its pod is gone", lambda: not place.pods(TEARDOWN_PODS))


def refuse(place: Bench, job: Json) -> str:
    """Why the controller's account may not create that; nothing where it may."""
    try:
        place.cluster.kubectl(
            *("create", "--dry-run=server", f"--as={CONTROLLER}", "-f", "-"),
            stdin=yaml.safe_dump(job),
        )
    except CommandError as error:
        return str(error)
    return ""


# The release goes.


def test_uninstalled_by_its_hooks_job_it_leaves_the_pools_and_nothing_else(
    place: Bench, replicas: Replicas, before: set[str]
) -> None:
    replicas.release.uninstall()
    expect_left(place, before, OUTLIVING)
    assert "finalizers" not in place.pool()["metadata"]
    place.delete_pool()
    expect(place, "the pool is gone", lambda: not place.call("GET", POOLS)["items"])
    assert place.call("GET", PODS)["items"] == []
