"""What `render kueue` prints for the pools, and what `doctor` says of Kueue's objects, beside Kueue
itself."""

import json
from pathlib import Path

import pytest
import yaml

from gpushare.analysis.kueue.manifests import PoolQueue, build_manifests
from tests.company.queues import Queues, build_job
from tests.kit.bench import GPU_MEM, Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect
from tests.kit.cluster.pod_admission import pool_of
from tests.kit.cluster.users import as_reader
from tests.kit.values.kueue import build_cluster_queue, build_flavor, build_local_queue
from tests.kit.values.objects import a_pool


@pytest.fixture
def rendered(queues: Queues) -> str:
    """The flavors and queues of the pools, applied."""
    cluster = queues.bench.cluster
    answer = run_command("render", "kueue", "-n", "default", kubeconfig=cluster.kubeconfig)
    assert answer.code == 0, answer.err
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=answer.out)
    return answer.out


def test_what_is_rendered_runs_jobs_and_lends_what_is_unused(rendered: str, queues: Queues) -> None:
    asks = {"resources": {"limits": {GPU_MEM: "15"}, "requests": {"cpu": "1", "memory": "1Gi"}}}
    for name, node in (("own", "n1"), ("lent", "n2")):
        job = build_job(name, gib=15, queue="training")
        job["spec"]["template"]["spec"]["containers"][0] |= asks
        queues.submit(job)
        (pod,) = queues.expect_running(name, on=node)
    assert pool_of(pod) == "inference"

    queues.submit(build_job("owner", gib=15, queue="inference"))
    queues.expect_running("owner", on="n2")
    queues.expect_suspended("lent")


def test_a_tool_that_applies_it_again_sees_no_difference(rendered: str, queues: Queues) -> None:
    queues.bench.cluster.kubectl("diff", "--server-side", "-f", "-", stdin=rendered)


@pytest.mark.usefixtures("kueue")
def test_manifests_of_any_pool_are_valid(bench: Bench) -> None:
    tolerations = [
        {"key": "a", "operator": "Exists"},
        {"key": "b", "value": "c", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    ]
    selector = {
        "matchLabels": {"team": "a"},
        "matchExpressions": [{"key": "b", "operator": "In", "values": ["c"]}],
    }
    workloads = {"tolerations": tolerations * 3, "namespaceSelector": selector}
    quota = {GPU_MEM: 1000, "cpu": 3920, "memory": 62}
    pools = [
        PoolQueue(a_pool("p." + "x" * 61, schedule="core_mem", workloads=workloads), quota),
        PoolQueue(a_pool("two", edition="NVIDIA", schedule="", nvidia={"config": "A.b_C"}), quota),
        *(PoolQueue(a_pool(f"many-{n}"), quota) for n in range(70)),
        PoolQueue(a_pool("unknown"), {}),
    ]
    manifests = yaml.safe_dump_all(build_manifests(pools))
    bench.cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=manifests)


def list_findings(kubeconfig: Path) -> dict[str, str]:
    """The object and message of doctor's findings, by code."""
    answer = run_command("doctor", "-o", "json", kubeconfig=kubeconfig)
    assert answer.code in (0, 13), answer.err
    findings = json.loads(answer.out)["findings"]
    return {each["code"]: f"{each['object']}: {each['message']}" for each in findings}


def test_doctor_tells_what_of_kueue_does_not_fit_the_pools(queues: Queues) -> None:
    bench = queues.bench
    queues.create(build_flavor("training", "training"), build_flavor("inference", "inference"))
    queues.create(
        build_cluster_queue("team", {"training": {GPU_MEM: 15}, "inference": {GPU_MEM: 15}}),
        build_local_queue(),
    )
    assert "KueueFits" in list_findings(bench.cluster.kubeconfig)

    queues.create(
        build_flavor("old", "gone"),
        build_flavor("any"),
        build_cluster_queue("more", {"training": {GPU_MEM: 1}, "any": {GPU_MEM: 1}}),
    )
    found = list_findings(bench.cluster.kubeconfig)
    assert "pool=gone" in found["FlavorPoolMissing"]
    assert found["FlavorWithoutPool"].startswith("resourceflavor any")
    assert found["QuotaAbovePool"].startswith("pool training: Quota of aliyun.com/gpu-mem")
    assert "16" in found["QuotaAbovePool"]
    assert not {"KueueFits", "PoolWithoutFlavor"} & found.keys()


def test_doctor_of_a_user_who_may_not_read_kueues_objects_skips_them(
    queues: Queues, tmp_path: Path
) -> None:
    queues.create(build_flavor("old", "gone"))
    with as_reader(queues.bench, tmp_path) as kubeconfig:
        answer = run_command("doctor", "-o", "json", kubeconfig=kubeconfig)
    found = json.loads(answer.out)["findings"]
    (skipped,) = (each for each in found if each["object"] == "kueue")
    assert (skipped["code"], skipped["severity"]) == ("Skipped", "info")
    assert "resourceflavors" in skipped["message"]


def test_doctor_tells_a_pool_that_no_flavor_selects(queues: Queues) -> None:
    queues.serve({"training": {GPU_MEM: 15}})
    found = expect(
        queues.bench,
        "doctor tells it",
        lambda: list_findings(queues.bench.cluster.kubeconfig).get("PoolWithoutFlavor"),
    )
    assert found.startswith("pool inference: ")
