"""What of pods and nodes says whether a scheduler may bring them together."""

from typing import Any

import pytest

from gpushare.api.k8s.node import parse_node
from gpushare.api.k8s.pod import MAX_MESSAGE, Pod, parse_pod
from tests.kit.values.manifests import build_pod


def _parse(status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    raw = build_pod("p", **spec) | {"status": status}
    raw["metadata"] |= {"uid": "u", "namespace": "default"}
    pod = parse_pod(raw, plugin_namespaces=())
    assert pod is not None
    return pod


def _refused(reason: str, message: str) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return _parse({"conditions": [condition]})


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        ("0/1 nodes are available: 1 Insufficient aliyun.com/gpu-mem.", True),
        ("0/1 nodes are available: 1 Insufficient GPU Memory in one device.", True),
        ("0/2 nodes: 1 Insufficient aliyun.com/gpu-core.percentage, 1 Insufficient cpu.", True),
        ("0/2 nodes: 2 Insufficient aliyun.com/gpu-mem. preemption: 0/2 nodes", True),
        ("0/2 nodes are available: 2 Insufficient aliyun.com/gpu-mem, 2 Insufficient cpu.", True),
        ("0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient example.com/gpu.", False),
        ("0/2 nodes are available: 2 Insufficient aliyun.com/gpu-memory.", False),
        ("0/2 nodes are available: 2 Insufficient aliyun.com/gpu-mem.large.", False),
        ("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", False),
        ("0/9 nodes: " + "x, " * MAX_MESSAGE + "1 Insufficient aliyun.com/gpu-mem.", True),
        ("0/1 nodes are available: 1 Insufficient cpu.", False),
        (
            "0/6 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint "
            "{node-role.kubernetes.io/control-plane: }, 4 Insufficient cpu. preemption: 0/6 nodes "
            "are available: 5 No preemption victims found for incoming pod.",
            False,
        ),
        ("0/1 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: }.", False),
        ('persistentvolumeclaim "gpu-models" not found', False),
        ("", None),
    ],
)
def test_whether_the_scheduler_names_shared_gpu_is_kept(message: str, lacks: bool | None) -> None:
    assert _refused("Unschedulable", message).lacks_gpu is lacks


def test_a_scheduler_that_failed_says_nothing_of_what_a_pod_lacks() -> None:
    assert _refused("SchedulerError", 'Post "http://127.0.0.1/filter": EOF').lacks_gpu is None


def test_scheduling_gates_are_kept() -> None:
    gates = ["team/quota", "team/zone"]
    assert _parse(schedulingGates=[{"name": gate} for gate in gates]).gates == tuple(gates)
    assert _parse().gates == ()


UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
PRESSURE = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "keys"),
    [
        ({"taints": [{"key": "team", "effect": "NoSchedule"}]}, ["team"]),
        ({"taints": [{"key": "team", "effect": "PreferNoSchedule"}]}, []),
        ({"taints": [PRESSURE]}, [PRESSURE["key"]]),
        ({"taints": [UNSCHEDULABLE], "unschedulable": True}, []),
        ({"taints": [UNSCHEDULABLE]}, []),
        ({"taints": [NOT_READY]}, []),
        ({"taints": None}, []),
    ],
    ids=["foreign", "preferred", "pressure", "cordoned", "just uncordoned", "not Ready", "null"],
)
def test_taints_that_say_more_than_the_nodes_state_are_kept(
    spec: dict[str, Any], keys: list[str]
) -> None:
    node = parse_node({"metadata": {"name": "n", "uid": "u"}, "spec": spec})
    assert [taint.key for taint in node.taints] == keys
