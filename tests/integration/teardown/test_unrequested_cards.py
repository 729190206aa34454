"""Pods that may hold uncounted cards keep a node's kernel module; a DaemonSet's pods do not."""

from collections.abc import Iterator

import pytest

from tests.kit.bench import NODES, PODS, Bench, Json
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect_reason, expect_running
from tests.kit.cluster.node_teardown import expect_isolating, given_isolating_pool
from tests.kit.values.manifests import build_pod

DAEMONSETS = "/apis/apps/v1/namespaces/default/daemonsets"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
NVIDIA: Json = {"runtimeClassName": "nvidia", "tolerations": [{"operator": "Exists"}]}


@pytest.fixture
def with_runtime_class(bench: Bench) -> Iterator[Bench]:
    """A cluster with the GPU Operator's RuntimeClass."""
    made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
    bench.call("POST", RUNTIME_CLASSES, {**made, "handler": "nvidia"})
    yield bench
    bench.call("DELETE", f"{RUNTIME_CLASSES}/nvidia")


def build_exporter() -> Json:
    """A DaemonSet as dcgm-exporter's: it sees every card."""
    labels = {"app": "exporter"}
    pod = build_pod("exporter", gib=None, env={"NVIDIA_VISIBLE_DEVICES": "all"}, **NVIDIA)
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "exporter"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
        },
    }


def test_a_teardown_waits_for_a_pod_of_nvidias_runtime_class_and_not_for_an_exporter(
    with_runtime_class: Bench,
) -> None:
    bench = with_runtime_class
    bench.install("Professional")
    bench.operators.standard()
    given_isolating_pool(bench, "training", "n1")
    expect_isolating(bench, training=1)
    bench.call("POST", DAEMONSETS, build_exporter())
    at_n1 = {"kubernetes.io/hostname": "n1"}
    holder = bench.create_pod(build_pod("notebook", gib=None, selects=at_n1, **NVIDIA))
    expect_running(bench, holder)

    bench.change_pool(schedule="share")
    bench.annotate(f"{NODES}/n1", {"gpushare.io/teardown": "start"})

    told = expect_reason(bench, "n1", "WorkloadsPresent", "runtimeClassName nvidia")["message"]
    assert f"default/{holder}" in told
    assert "exporter" not in told
    assert "unschedulable" not in bench.node("n1")["spec"]
    kubeconfig = bench.cluster.kubeconfig
    for command in (["explain", "node", "n1"], ["plan", "pool", "training"], ["doctor"]):
        assert (
            f"default/{holder} (runtimeClassName nvidia)"
            in run_command(*command, kubeconfig=kubeconfig, COLUMNS="400").out
        )

    bench.call("DELETE", f"{PODS}/{holder}")
    expect_reason(bench, "n1", "ModuleRemoval")
    assert [pod["spec"]["nodeName"] for pod in bench.pods(PODS)] == ["n1"]  # the exporter's
