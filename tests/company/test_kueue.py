"""Kueue's queues over pools: what it admits lands in the pool that its flavor selects."""

from typing import Any

from tests.company.queues import (
    DEPLOYMENTS,
    GATE,
    Queues,
    build_job,
    build_priority,
)
from tests.kit.bench import GPU_MEM
from tests.kit.cluster.expect import (
    expect,
    expect_bound,
    expect_isolated,
    expect_pool_ready,
    expect_quiet,
    find_condition,
)
from tests.kit.cluster.pod_admission import decision_of, kubectl_create, pool_of
from tests.kit.values.kueue import QUEUE
from tests.kit.values.manifests import Json, build_pod, build_workload

GROUP = "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"


def test_a_job_waits_for_quota_and_lands_in_the_pool_of_its_flavor(queues: Queues) -> None:
    queues.serve({"inference": {GPU_MEM: 8}})
    queues.submit(build_job("first", gib=8))
    (pod,) = queues.expect_running("first", on="n2")
    assert pool_of(pod) == "inference"
    assert decision_of(pod)["reason"] == "AlreadySelects"

    queues.submit(build_job("second", gib=4))
    queues.expect_suspended("second", "insufficient unused quota")
    assert queues.pods_of("second") == []
    queues.delete_job("first")
    queues.expect_running("second", on="n2")


def test_the_webhook_tells_whose_choice_the_pool_is(queues: Queues) -> None:
    queues.serve({"inference": {GPU_MEM: 8}})
    job = kubectl_create(queues.bench, build_job("train")).warnings
    assert any("Kueue flavor" in each for each in job), job
    deployment = build_workload("Deployment", "web", pod=build_pod("web", gib=4))
    deployment["metadata"]["labels"] = {QUEUE: "team"}
    told = kubectl_create(queues.bench, deployment).warnings
    assert any("Kueue chooses the node" in each for each in told), told


def test_pods_of_a_deployment_get_the_pool_of_the_flavor(queues: Queues) -> None:
    queues.serve({"inference": {GPU_MEM: 8}})
    deployment = build_workload("Deployment", "web", replicas=2, pod=build_pod("web", gib=4))
    deployment["metadata"]["labels"] = {QUEUE: "team"}
    queues.bench.call("POST", DEPLOYMENTS, deployment)
    for pod in queues.expect_running("web", on="n2", pods=2):
        assert pool_of(pod) == "inference"
        assert decision_of(pod)["reason"] == "NotRouted"


def test_a_job_of_higher_priority_takes_the_place_of_another_in_the_pool(queues: Queues) -> None:
    queues.serve({"inference": {GPU_MEM: 12}}, preemption={"withinClusterQueue": "LowerPriority"})
    queues.create(build_priority("high", 1000))
    queues.submit(build_job("low", gib=12))
    queues.expect_running("low", on="n2")
    queues.submit(build_job("high", gib=12, priority="high"))
    queues.expect_running("high", on="n2")
    queues.expect_suspended("low")
    assert queues.pods_of("low") == []
    queues.delete_job("high")
    queues.expect_running("low", on="n2")


def test_a_job_that_may_be_smaller_runs_with_the_pods_that_fit_the_quota(queues: Queues) -> None:
    queues.serve({"inference": {GPU_MEM: 8}})
    queues.submit(build_job("part", gib=4, pods=4, least=2))
    queues.expect_running("part", on="n2", pods=2)
    assert queues.job("part")["spec"]["parallelism"] == 2


def test_a_pool_changes_its_mode_only_after_the_jobs_of_its_flavor(queues: Queues) -> None:
    queues.serve({"inference": {GPU_MEM: 15}})
    queues.submit(build_job("running", gib=8))
    (before,) = queues.expect_running("running", on="n2")
    bench = queues.bench
    bench.change_pool("inference", schedule="cgpu")

    def waits() -> bool:
        return bool(find_condition(bench.pool("inference"))["reason"] == "WorkloadsPresent")

    expect(bench, "the node waits for the job", waits)
    expect_quiet(bench, "the node's mode stays", lambda: bench.labels()["n2"])
    assert bench.labels()["n2"]["ack.node.gpu.schedule"] == "share"
    (still,) = queues.expect_running("running", on="n2")
    assert still["metadata"]["uid"] == before["metadata"]["uid"]

    queues.submit(build_job("next", gib=8))
    queues.expect_suspended("next", "insufficient unused quota")
    queues.delete_job("running")
    expect_pool_ready(bench, "inference", nodes=1)
    (after,) = queues.expect_running("next", on="n2")
    assert pool_of(after) == "inference"
    expect_isolated(after)


def build_member(name: str, *, of: int, gib: int = 4, **spec: Any) -> Json:
    """A pod of the group `gang`."""
    labels = {QUEUE: "team", GROUP: "gang", "app": "gang"}
    return build_pod(name, gib=gib, labels=labels, annotations={COUNT: str(of)}, **spec)


def test_pods_of_a_group_are_held_back_together_and_land_in_the_pool(queues: Queues) -> None:
    queues.serve({"inference": {GPU_MEM: 8}})
    bench = queues.bench
    bench.create_pod(build_member("one", of=2))
    first = bench.pod("one")
    assert {"name": GATE} in first["spec"]["schedulingGates"]
    assert decision_of(first)["reason"] == "NotRouted"
    assert pool_of(first) is None
    bench.create_pod(build_member("two", of=2))
    for pod in queues.expect_running("gang", on="n2", pods=2):
        assert pool_of(pod) == "inference"


def test_what_kueue_holds_back_takes_no_room_of_others(queues: Queues) -> None:
    queues.serve({"training": {GPU_MEM: 4}})
    bench = queues.bench
    for name in ("one", "two", "three"):
        bench.create_pod(build_member(name, of=4, gib=15))
    bench.create_pod(build_pod("free", gib=15))
    assert pool_of(bench.pod("free")) == "training"
    assert expect_bound(bench, "free") == "n1"
