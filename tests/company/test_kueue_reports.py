"""What users of Kueue reported of queues beside other webhooks, shared cards and gates."""

from tests.company.queues import GATE, Queues, build_job
from tests.kit.bench import GPU_MEM
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect, expect_bound, expect_quiet
from tests.kit.cluster.pod_admission import decision_of, pool_of
from tests.kit.values.kueue import (
    QUEUE,
    build_cluster_queue,
    build_flavor,
    build_local_queue,
    build_quota,
)
from tests.kit.values.manifests import build_pod


def test_pods_without_a_queue_wait_for_the_default_queue_in_the_pool_that_they_have(
    queues: Queues,
) -> None:
    """Kueue's webhook comes after ours: it names the queue, and holds the pod back."""
    queues.create(
        build_flavor("training", "training"),
        build_cluster_queue("team", {"training": {GPU_MEM: 8}}),
        build_local_queue("default"),
    )
    bench = queues.bench

    def is_held() -> bool:
        pod = bench.pod(bench.create_pod(build_pod("plain", gib=4)))
        if {"name": GATE} in pod["spec"].get("schedulingGates", []):
            return True
        bench.delete_pod("plain")
        return False

    expect(bench, "Kueue holds the pod back", is_held)
    assert expect_bound(bench, "plain") == "n1"
    assert decision_of(bench.pod("plain"))["pool"] == "training"


def test_a_running_job_is_not_restarted_by_what_our_webhook_wrote(queues: Queues) -> None:
    """kueue#3090: a webhook that changes pods later lets Kueue stop them again and again."""
    queues.serve({"training": {GPU_MEM: 15}})
    queues.submit(build_job("train", gib=4, pods=2))
    queues.expect_running("train", on="n1", pods=2)
    expect_quiet(
        queues.bench,
        "its pods stay",
        lambda: sorted(pod["metadata"]["uid"] for pod in queues.pods_of("train")),
    )
    assert not queues.job("train")["spec"]["suspend"]


def test_a_gate_of_others_stays_and_is_told(queues: Queues) -> None:
    """kueue#9482: Kueue calls a pod admitted that another gate still holds back."""
    queues.serve({"inference": {GPU_MEM: 8}})
    bench = queues.bench
    gated = build_pod("gated", labels={QUEUE: "team"}, schedulingGates=[{"name": "a.b/c"}])
    bench.create_pod(gated)

    def is_admitted() -> bool:
        return bool(bench.pod("gated")["spec"]["schedulingGates"] == [{"name": "a.b/c"}])

    expect(bench, "Kueue lifts its own gate", is_admitted)
    assert pool_of(bench.pod("gated")) == "inference"
    told = run_command("explain", "pod", "gated", kubeconfig=bench.cluster.kubeconfig).out
    assert "a.b/c" in told


def test_a_job_that_asks_for_cpu_waits_where_the_queue_has_no_quota_of_it(queues: Queues) -> None:
    """kueue#4848, xpk#603: what `render kueue` prints has that quota."""
    queues.serve({"training": {GPU_MEM: 15}})
    job = build_job("train")
    resources = job["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["requests"] = {"cpu": "1"}
    queues.submit(job)
    queues.expect_suspended("train", "resource cpu unavailable in ClusterQueue")


def test_flavors_of_two_pools_for_one_pod_are_told(queues: Queues) -> None:
    """kueue#14409: the pod gets the label of either, by chance."""
    queue = build_cluster_queue("team", {"training": {"cpu": 4}})
    other = {"coveredResources": [GPU_MEM], "flavors": [build_quota("inference", {GPU_MEM: 8})]}
    queue["spec"]["resourceGroups"].append(other)
    queues.create(
        build_flavor("training", "training"),
        build_flavor("inference", "inference"),
        queue,
        build_local_queue(),
    )
    job = build_job("train")
    resources = job["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["requests"] = {"cpu": "1"}
    queues.submit(job)
    bench = queues.bench
    (pod,) = expect(bench, "its pod is there", lambda: queues.pods_of("train"))
    assert pool_of(pod) in ("training", "inference")
    assert decision_of(pod)["reason"] == "AlreadySelects"
    told = run_command("doctor", kubeconfig=bench.cluster.kubeconfig).out
    assert "PoolsInTwoGroups" in told
