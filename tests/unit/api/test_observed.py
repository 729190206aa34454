"""What is read of Nodes and Pods."""

from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import parse_node, parse_quantity
from gpushare.api.pod import count_gpu_requests, parse_pod


def _entry(manager: str, operation: str = "Apply", **more: Any) -> dict[str, Any]:
    fields = {
        "f:metadata": {"f:labels": {"f:cgpu": {}}, "f:annotations": {"f:gpushare.io/found": {}}},
        "f:spec": {"f:unschedulable": {}},
    }
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


def _node(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": "gpu-1", "uid": "1", "managedFields": list(entries)}
    return {"metadata": metadata, **more}


def test_ownership_is_read_from_our_entry_of_managed_fields() -> None:
    node = parse_node(_node(_entry("kubectl"), _entry(names.FIELD_MANAGER)))
    assert node.owned == {"cgpu", "gpushare.io/found"}
    assert node.owns_cordon


@pytest.mark.parametrize(
    "entry",
    [
        _entry("kubectl"),
        _entry(names.FIELD_MANAGER, "Update"),
        _entry(names.FIELD_MANAGER, subresource="status"),
    ],
)
def test_other_entries_make_nothing_ours(entry: dict[str, Any]) -> None:
    node = parse_node(_node(entry))
    assert (node.owned, node.owns_cordon) == (frozenset(), False)


def test_a_node_without_anything_is_read_as_not_ready() -> None:
    node = parse_node({"metadata": {"name": "gpu-1", "uid": "1"}})
    assert (node.ready, node.unschedulable, node.allocatable) == (False, False, {})


def test_only_gpu_resources_are_kept() -> None:
    allocatable = {"cpu": "8", "aliyun.com/gpu-mem": "15", "nvidia.com/mig-1g.5gb": "7"}
    node = parse_node(_node(status={"allocatable": allocatable}))
    assert node.allocatable == {"aliyun.com/gpu-mem": 15, "nvidia.com/mig-1g.5gb": 7}


@pytest.mark.parametrize(
    ("text", "amount"),
    [("3", 3), (3, 3), ("0", 0), ("2k", 2000), ("1Ki", 1024), ("", 0), ("5.5", 0), ("-1", 0)],
)
def test_quantities_are_whole_numbers(text: str | int, amount: int) -> None:
    assert parse_quantity(text) == amount


def _pod(namespace: str = "default", **more: Any) -> dict[str, Any]:
    spec = more.pop("spec", {})
    metadata = {"namespace": namespace, "name": "pod", "uid": "1", **more}
    return {"metadata": metadata, "spec": spec}


OWNED = {"ownerReferences": [{"kind": "DaemonSet", "name": "plugin", "controller": True}]}
ASKS = {"containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}]}


def test_a_pod_that_no_decision_depends_on_is_not_kept() -> None:
    assert parse_pod(_pod(), plugin_namespace="kube-system") is None


def test_a_daemonsets_pod_is_known_by_its_owner_not_by_its_labels() -> None:
    pod = parse_pod(_pod("kube-system", **OWNED), plugin_namespace="kube-system")
    assert pod is not None
    assert pod.daemonset == "plugin"


def test_a_daemonset_of_the_same_name_elsewhere_is_no_plugin() -> None:
    assert parse_pod(_pod("default", **OWNED), plugin_namespace="kube-system") is None


def test_requests_of_all_containers_add_up_and_limits_count_as_requests() -> None:
    spec = {
        "initContainers": [{"resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}],
        "containers": [
            {"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}},
            {"resources": {"requests": {"aliyun.com/gpu-mem": "2"}}},
            {},
        ],
    }
    assert count_gpu_requests(spec) == {"aliyun.com/gpu-mem": 6}


def test_a_request_of_zero_is_none() -> None:
    spec = {"containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": "0"}}}]}
    assert count_gpu_requests(spec) == {}


def test_modes_are_selected_by_node_selector_and_by_required_affinity() -> None:
    term = {"matchExpressions": [{"key": "cgpu", "operator": "In", "values": ["true"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {
        "nodeSelector": {"ack.node.gpu.schedule": "share", "zone": "a"},
        "affinity": {"nodeAffinity": required},
    }
    pod = parse_pod(_pod(spec=spec), plugin_namespace="kube-system")
    assert pod is not None
    assert pod.selects == {("ack.node.gpu.schedule", "share"), ("cgpu", "true")}


def test_a_daemonsets_pod_that_selects_a_mode_waits_for_nobody() -> None:
    spec = {"nodeSelector": {"ack.node.gpu.schedule": "share"}}
    pod = parse_pod(_pod("kube-system", spec=spec, **OWNED), plugin_namespace="kube-system")
    assert pod is not None
    assert pod.selects == frozenset()


def test_nulls_where_lists_could_be_are_taken_as_empty() -> None:
    spec = {**ASKS, "initContainers": None, "nodeSelector": None, "affinity": None}
    pod = parse_pod(_pod(spec=spec, ownerReferences=None), plugin_namespace="kube-system")
    assert pod is not None
    assert pod.requests == {"aliyun.com/gpu-mem": 3}
