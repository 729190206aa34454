"""Pools of the edition NVIDIA: each change of a node's configuration, as a user sees it."""

import json
from collections.abc import Iterator

import pytest

from devcluster import names
from devcluster.installation import NAMESPACE as OPERATOR_NAMESPACE
from devcluster.nvidia import CONFIG_MAP, MPS_DAEMONS
from tests.kit.bench import NODES, Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import (
    expect,
    expect_pool_ready,
    expect_quiet,
    expect_reason,
    expect_running,
    is_observed,
)
from tests.kit.cluster.nvidia_stack import (
    CARDS,
    CONFIGS,
    GPU,
    KEY,
    NAMESPACE,
    SHARED,
    STACK_PODS,
    add_gpu_nodes,
    ask_for,
    build_nvidia_pool,
    nvidia_installed,
    offered,
)

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{OPERATOR_NAMESPACE}/deployments"


@pytest.fixture
def nvidia(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """NVIDIA's stack with an operator that looks after it, and no node yet; the parameter is the
    default key."""
    with nvidia_installed(bench, getattr(request, "param", "")):
        bench.operators.start(env={"GPUSHARE_NVIDIA_NAMESPACE": NAMESPACE})
        yield bench


def given_member(bench: Bench, config: str) -> Bench:
    """Node `n1` has the configuration of its pool."""
    add_gpu_nodes(bench, "n1")
    bench.create_pool(build_nvidia_pool(config))
    expect_pool_ready(bench, nodes=1)
    return bench


@pytest.mark.parametrize("nvidia", ["mps-8"], indirect=True)
def test_nodes_go_from_whole_cards_to_slices_to_mps_and_back_one_at_a_time(nvidia: Bench) -> None:
    bench, nodes = nvidia, [f"n{number}" for number in range(1, 7)]
    add_gpu_nodes(bench, *nodes)
    bench.create_pool(build_nvidia_pool("whole"))
    expect_pool_ready(bench, nodes=6, within=180)
    assert {bench.labels()[node][KEY] for node in nodes} == {"whole"}

    bench.create_pod(ask_for(GPU, "holder", "n4"))
    expect(bench, "it runs", lambda: bench.pod("holder")["status"]["phase"] == "Running")
    for config, replicas in (("slices-4", 4), ("mps-8", 8), ("whole", 1)):
        with bench.watching() as seen:
            bench.change_pool(nvidia={"config": config})
            if config == "slices-4":
                told = expect_reason(bench, "n4", "WorkloadsPresent")["message"]
                assert f"use {GPU}" in told
                assert "default/holder" in told
                assert bench.pod("holder")["status"]["phase"] == "Running"
                assert bench.labels()["n4"][KEY] == "whole"
                bench.delete_pod("holder")
            expect_pool_ready(bench, nodes=6, within=240)
        assert {offered(bench, node) for node in nodes} == {CARDS * replicas}
        assert len(seen.most_at_once(lambda node: node["spec"].get("unschedulable"))) == 1


def test_what_keeps_a_node_from_its_configuration_is_told_before_it_is_touched(
    nvidia: Bench,
) -> None:
    bench = nvidia
    add_gpu_nodes(bench, "typo")
    bench.create_pool(build_nvidia_pool("slice-4", nodes={"names": ["typo"]}))
    told = expect_reason(bench, "typo", "ConfigMissing")["message"]
    assert f"{NAMESPACE}/{CONFIG_MAP}" in told
    assert "slices-4" in told
    assert KEY not in bench.labels()["typo"]
    expect_quiet(bench, "nothing is written", lambda: bench.node("typo")["metadata"])

    bench.change_pool(nvidia={"config": "slices-4"})
    bench.label("typo", {"nvidia.com/gpu-driver-upgrade-state": "drain-required"})
    expect_reason(bench, "typo", "UnderMaintenance")
    bench.label("typo", {"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"})
    expect_pool_ready(bench, nodes=1)

    bench.label("typo", {"nvidia.com/mig.config": "all-1g.10gb"})
    expect_reason(bench, "typo", "MigNode")


def test_a_node_with_an_unhealthy_card_changes_to_what_its_other_cards_offer(nvidia: Bench) -> None:
    bench = nvidia
    add_gpu_nodes(bench, "n1", "n2")
    bench.create_pool(build_nvidia_pool("whole"))
    expect_pool_ready(bench, nodes=2)
    bench.set_faults("n1", unhealthy_fraction=1 / CARDS)
    assert f"1 of {CARDS} {GPU}" in expect_reason(bench, "n1", "UnhealthyCards")["message"]
    expect_pool_ready(bench, nodes=2)

    bench.change_pool(nvidia={"config": "slices-4"})
    expect(bench, "n1 has changed", lambda: offered(bench, "n1") == (CARDS - 1) * 4)
    told = expect_reason(bench, "n1", "UnhealthyCards", f"{(CARDS - 1) * 4} of {CARDS * 4}")
    expect_pool_ready(bench, nodes=2)
    assert told["message"].count(GPU) == 1
    assert offered(bench, "n2") == CARDS * 4


def test_an_entry_with_other_replicas_for_each_card_is_refused_before_any_node_is_touched(
    nvidia: Bench,
) -> None:
    bench = nvidia
    each = [f"{{name: {GPU}, replicas: {n}, devices: ['{n}']}}" for n in (2, 8)]
    content = f"version: v1\nsharing: {{timeSlicing: {{resources: [{', '.join(each)}]}}}}"
    bench.call("PATCH", CONFIGS, {"data": {"uneven": content}})
    add_gpu_nodes(bench, "n1")
    bench.create_pool(build_nvidia_pool("uneven"))
    told = expect_reason(bench, "n1", "ConfigMissing")["message"]
    assert "sharing.timeSlicing.resources[0].devices" in told
    expect_quiet(bench, "nothing is written", lambda: bench.node("n1")["metadata"])
    assert KEY not in bench.labels()["n1"]


def test_a_node_that_has_the_configuration_joins_without_a_restart(nvidia: Bench) -> None:
    bench = nvidia
    add_gpu_nodes(bench, "n1", labels={KEY: "slices-4"})
    expect(bench, "slices", lambda: offered(bench, "n1") == CARDS * 4)
    bench.create_pod(ask_for(GPU, "runs", "n1"))
    expect(bench, "it runs", lambda: bench.pod("runs")["status"]["phase"] == "Running")
    before = [pod["metadata"]["uid"] for pod in bench.pods(STACK_PODS)]
    bench.create_pool(build_nvidia_pool("slices-4"))
    expect_pool_ready(bench, nodes=1)
    after = [pod["metadata"]["uid"] for pod in bench.pods(STACK_PODS)]
    assert before == after


def test_doctor_reads_where_the_plugin_is_from_the_operators_deployment(nvidia: Bench) -> None:
    bench = given_member(nvidia, "slices-4")
    name = {"app.kubernetes.io/name": "gpushare-operator"}
    env = [{"name": "GPUSHARE_NVIDIA_NAMESPACE", "value": NAMESPACE}]
    template = {
        "metadata": {"labels": name},
        "spec": {"containers": [{"name": "gpushare", "image": "gpushare:v1", "env": env}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpushare-controller", "labels": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": name}, "template": template},
    }
    bench.call("POST", DEPLOYMENTS, deployment)
    try:
        told = run_command("doctor", "-o", "json", kubeconfig=bench.cluster.kubeconfig).out
    finally:
        bench.call("DELETE", f"{DEPLOYMENTS}/gpushare-controller")
    about_nodes = [each for each in json.loads(told)["findings"] if "node" in each["object"]]
    assert [each["code"] for each in about_nodes] == ["PluginsServe"]


def test_a_change_is_proved_too_where_the_init_container_sees_the_label(nvidia: Bench) -> None:
    bench = nvidia
    add_gpu_nodes(bench, "n1")
    bench.annotate(f"{NODES}/n1", {names.SEES_LABEL: "true"})
    bench.create_pool(build_nvidia_pool("mps-8"))
    expect_pool_ready(bench, nodes=1)
    assert offered(bench, "n1") == 8 * CARDS


def test_a_node_whose_mps_daemon_has_another_default_key_stays_cordoned_and_names_it(
    nvidia: Bench,
) -> None:
    bench = nvidia
    add_gpu_nodes(bench, "n1")
    bench.create_pool(build_nvidia_pool("mps-8", rollout={"readyTimeoutSeconds": 15}))
    assert MPS_DAEMONS in expect_reason(bench, "n1", "DeadlineExceeded")["message"]
    assert bench.node("n1")["spec"]["unschedulable"]


def test_an_edited_configuration_is_told_and_rolled_out_when_the_pool_says_so(
    nvidia: Bench,
) -> None:
    bench = given_member(nvidia, "slices-4")
    edited = bench.call("GET", CONFIGS)
    edited["data"]["slices-4"] = edited["data"]["slices-8"]
    bench.call("PUT", CONFIGS, edited)
    told = expect_reason(bench, "n1", "ConfigChanged")["message"]
    assert "onConfigChange" in told
    assert offered(bench, "n1") == CARDS * 4
    bench.change_pool(nvidia={"config": "slices-4", "onConfigChange": "RollOut"})
    expect(bench, "edited content", lambda: offered(bench, "n1") == CARDS * 8)
    expect(bench, "observed", lambda: is_observed(bench.pool()))
    expect_pool_ready(bench, nodes=1)


def fill(bench: Bench) -> None:
    """Pods on half of the slices of two cards by four."""
    expect(bench, "slices", lambda: offered(bench, "n1") == 4 * CARDS)
    for number in range(4):
        bench.create_pod(ask_for(GPU, f"p{number}", "n1"))
    for number in range(4):
        expect_running(bench, f"p{number}")


def expect_drained_first(bench: Bench) -> None:
    """The node offers whole cards, and is Ready once the pods that share them are gone."""
    expect(bench, "whole cards", lambda: offered(bench, "n1") == CARDS)
    assert KEY in expect_reason(bench, "n1", "WorkloadsPresent")["message"]
    for number in range(4):
        bench.delete_pod(f"p{number}")
    expect_pool_ready(bench, nodes=1)


def test_pods_that_came_beside_another_label_must_go_although_the_label_is_back(
    nvidia: Bench,
) -> None:
    bench = given_member(nvidia, "whole")
    bench.change_pool(reconcile="Paused")
    expect(bench, "observed", lambda: is_observed(bench.pool()))
    bench.label("n1", {KEY: "slices-4"})
    fill(bench)
    bench.label("n1", {KEY: "whole"})
    bench.change_pool(reconcile="Enforce")
    expect_drained_first(bench)


def test_pods_that_came_with_edited_content_must_go_although_the_content_is_back(
    nvidia: Bench,
) -> None:
    bench = given_member(nvidia, "whole")
    data = bench.call("GET", CONFIGS)["data"]
    for content in (data["slices-4"], data["whole"]):
        bench.call("PATCH", CONFIGS, {"data": {"whole": content}})
        bench.call("DELETE", STACK_PODS)
        if content == data["slices-4"]:
            fill(bench)
    expect_drained_first(bench)


def test_a_renamed_resource_is_proved_under_its_name(nvidia: Bench) -> None:
    bench = given_member(nvidia, "shared-4")
    assert offered(bench, "n1", SHARED) == CARDS * 4
    told = run_command("explain", "node", "n1", kubeconfig=bench.cluster.kubeconfig).out
    assert f"{GPU}.replicas" in told
    bench.change_pool(nvidia={"config": "whole"})
    expect_pool_ready(bench, nodes=1)
    assert offered(bench, "n1") == CARDS
