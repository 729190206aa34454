"""What is read of Nodes and Pods."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from gpushare import names
from gpushare.api.daemonset import list_standard_names
from gpushare.api.gpurequest import count_gpu_requests
from gpushare.api.node import MAX_CARDS, MAX_QUANTITY, parse_node, parse_quantity
from gpushare.api.pod import MAX_MESSAGE, Pod, parse_pod
from gpushare.api.podshape import parse_pod_shape


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


@pytest.mark.parametrize(
    ("time", "moment"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_of_a_mode_label_that_others_own_it_is_read_when_they_last_wrote(
    time: str | None, moment: datetime | None
) -> None:
    raw = _node(_entry("kubectl", "Update", time=time), _entry(names.FIELD_MANAGER, time=time))
    written = parse_node(raw).written_at
    assert written == ({names.LABEL_CGPU: moment} if moment else {})
    assert not parse_node(_node(_entry(names.FIELD_MANAGER, time=time))).written_at


def test_a_node_without_anything_is_read_as_not_ready() -> None:
    node = parse_node({"metadata": {"name": "gpu-1", "uid": "1"}})
    assert (node.ready, node.unschedulable, node.allocatable) == (False, False, {})


def test_only_gpu_resources_are_kept() -> None:
    allocatable = {"cpu": "8", "aliyun.com/gpu-mem": "15", "nvidia.com/mig-1g.5gb": "7"}
    node = parse_node(_node(status={"allocatable": allocatable}))
    assert node.allocatable == {"aliyun.com/gpu-mem": 15, "nvidia.com/mig-1g.5gb": 7}


def test_no_node_has_more_cards_than_any_machine() -> None:
    offered = {"aliyun.com/gpu-count": "1e40", "aliyun.com/gpu-mem": "1e40"}
    node = parse_node(_node(status={"allocatable": offered, "capacity": offered}))
    assert (node.gpu_count, node.allocatable["aliyun.com/gpu-mem"]) == (MAX_CARDS, MAX_QUANTITY)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        *[("3", 3), (3, 3), ("0", 0), ("2k", 2000), ("1Ki", 1024), ("1T", 10**12)],
        *[("2e3", 2000), ("2E3", 2000), ("1e+2", 100), ("1Pi", 2**40), ("9e99", 2**40)],
        *[("007", 7), ("9" * 19, 2**40), ("9" * 20, None)],
        *[("", None), ("5.5", None), ("-1", None), ("1e999", None), ("\u0663", None)],
    ],
)
def test_quantities_are_whole_numbers(text: str | int, amount: int | None) -> None:
    assert parse_quantity(text) == amount


def test_a_request_that_is_not_understood_is_one_all_the_same() -> None:
    pod = _pod(spec={"containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": "1.5Q"}}}]})
    parsed = parse_pod(pod, plugin_namespace="kube-system")
    assert parsed is not None
    assert parsed.requests == {"aliyun.com/gpu-mem": 1}


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


@pytest.mark.parametrize(
    ("owner", "known_as"), [("renamed", "plugin"), ("agent", "agent"), ("plugin", "former plugin")]
)
def test_a_renamed_daemonset_is_known_by_its_standard_name(owner: str, known_as: str) -> None:
    pod = _owned_by(owner, {"plugin": "renamed"})
    assert pod is not None
    assert pod.daemonset == known_as


def _owned_by(owner: str, given: Mapping[str, str]) -> Pod | None:
    owners = [{"kind": "DaemonSet", "name": owner, "controller": True}]
    raw = _pod("kube-system", ownerReferences=owners)
    return parse_pod(raw, plugin_namespace="kube-system", standard_names=list_standard_names(given))


def _count(spec: dict[str, Any]) -> Mapping[str, int]:
    shape = parse_pod_shape({"spec": spec}).spec
    assert shape is not None
    return count_gpu_requests(shape)


def _asks(units: int, **more: str) -> dict[str, Any]:
    return {"resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}, **more}


def _sidecar(units: int) -> dict[str, Any]:
    return _asks(units, restartPolicy="Always")


def test_requests_of_all_containers_add_up_and_limits_count_as_requests() -> None:
    by_request = {"resources": {"requests": {"aliyun.com/gpu-mem": "2"}}}
    spec = {"containers": [_asks(3), by_request, {}]}
    assert _count(spec) == {"aliyun.com/gpu-mem": 5}


@pytest.mark.parametrize(
    ("starting", "units"),
    [
        ([_asks(2)], 3),
        ([_asks(2), _asks(8)], 8),
        ([_sidecar(2)], 5),
        ([_sidecar(2), _asks(8)], 10),
        ([_asks(8), _sidecar(2)], 8),
        ([_sidecar(1), _sidecar(1), {}], 5),
    ],
)
def test_init_containers_run_before_the_others_and_sidecars_beside_them(
    starting: list[dict[str, Any]], units: int
) -> None:
    spec = {"initContainers": starting, "containers": [_asks(3)]}
    assert _count(spec) == {"aliyun.com/gpu-mem": units}


def test_a_request_of_zero_is_none() -> None:
    spec = {"containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": "0"}}}]}
    assert _count(spec) == {}


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


POD_LEDGER = {"scheduler.framework.gpushare.allocation": '{"0": {"1": 3}}'}


def _parsed(*, status: dict[str, Any] | None = None, **more: Any) -> Pod:
    raw = _pod(**{"spec": ASKS, **more}) | {"status": status or {}}
    pod = parse_pod(raw, plugin_namespace="kube-system")
    assert pod is not None
    return pod


def test_the_cards_of_a_pod_are_read_from_the_ledger() -> None:
    pod = _parsed(spec={**ASKS, "nodeName": "gpu-1"}, annotations=POD_LEDGER)
    assert pod.cards == {1: 3}


def test_a_pod_without_a_node_holds_no_card_whatever_a_failed_binding_left() -> None:
    assert _parsed(annotations=POD_LEDGER).cards == {}


def test_a_pod_that_asks_for_no_gpu_memory_holds_no_card_whatever_it_says() -> None:
    whole = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    pod = _parsed(spec={**whole, "nodeName": "gpu-1"}, annotations=POD_LEDGER)
    assert pod.cards == {}


@pytest.mark.parametrize(
    ("label", "per_card"),
    [("2", 6), ("1", 12), ("0", 12), ("-2", 12), ("two", 12), ("", 12), ("9" * 60, 12)],
)
def test_memory_is_spread_over_the_cards_that_a_label_counts(label: str, per_card: int) -> None:
    spec = {"containers": [_asks(12)]}
    pod = _parsed(spec=spec, labels={"aliyun.com/gpu-count": label})
    assert (pod.gpu_memory, pod.gpu_memory_per_card) == (12, per_card)


def test_the_extender_counts_containers_and_kube_scheduler_sidecars_too() -> None:
    sidecar = {**_asks(3), "restartPolicy": "Always"}
    spec = {"containers": [_asks(2)], "initContainers": [sidecar], "nodeName": "gpu-1"}
    pod = _parsed(spec=spec, annotations={"ALIYUN_COM_GPU_MEM_IDX": "1"})
    assert (pod.gpu_memory, pod.gpu_memory_per_card, pod.cards) == (5, 2, {1: 2})


def _scheduled(reason: str, message: str = "0/3 nodes are available") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"conditions": [{"type": "Ready", "status": "False"}, condition]}


def test_why_the_scheduler_found_no_node_is_kept_and_cut() -> None:
    assert _parsed(status=_scheduled("Unschedulable")).unschedulable == "0/3 nodes are available"
    long = _scheduled("Unschedulable", "x" * 10_000)
    assert len(_parsed(status=long).unschedulable) == MAX_MESSAGE


def test_a_pod_that_is_held_back_was_not_found_unschedulable() -> None:
    assert _parsed(status=_scheduled("SchedulingGated")).unschedulable == ""


def test_the_age_of_a_pod_is_kept() -> None:
    pod = _parsed(creationTimestamp="2026-01-02T03:04:05Z")
    assert pod.created == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _required(
    requirement: dict[str, Any], kind: str = "matchExpressions", times: int = 1
) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{kind: [requirement] * times}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {**ASKS, "affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("more", "unrouted"),
    [
        ({"spec": ASKS}, True),
        ({"spec": {**ASKS, "nodeName": "gpu-1"}}, True),
        ({"spec": {**ASKS, "nodeSelector": {"zone": "a"}}}, True),
        ({"spec": {**ASKS, "nodeSelector": {"gpushare.io/pool": "training"}}}, False),
        ({"spec": {**ASKS, "nodeSelector": {"cgpu": "true"}}}, False),
        ({"spec": _required({"key": "cgpu", "operator": "Exists"})}, False),
        ({"spec": {**ASKS, "nodeSelector": {"kubernetes.io/hostname": "gpu-1"}}}, False),
        (
            {
                "spec": _required(
                    {"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}, "matchFields"
                )
            },
            False,
        ),
        ({"spec": {**ASKS, "schedulerName": "volcano"}}, False),
        ({"spec": ASKS, "annotations": {"gpushare.io/inject": "disabled"}}, False),
        ({"spec": _required({"key": "zone", "operator": "Exists"}, times=1001)}, True),
        ({"spec": ASKS, **OWNED}, False),
        ({"spec": {**ASKS, "schedulingGates": [{"name": "queue"}]}}, False),
        ({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}, False),
    ],
)
def test_unrouted_is_a_pod_that_nobody_sent_anywhere(more: dict[str, Any], unrouted: bool) -> None:
    assert _parsed(**more).unrouted is unrouted


@pytest.mark.parametrize("scheduler", ["default-scheduler", "gpu-scheduler", "volcano"])
def test_whose_pods_nobody_routed_depends_on_the_installations_schedulers(scheduler: str) -> None:
    known = ("default-scheduler", "gpu-scheduler")
    raw = _pod(spec={**ASKS, "schedulerName": scheduler})
    pod = parse_pod(raw, plugin_namespace="kube-system", schedulers=known)
    assert pod is not None
    assert pod.unrouted is (scheduler in known)


@pytest.mark.parametrize(
    ("more", "is_evictable"),
    [
        ({}, True),
        (OWNED, False),
        ({"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "controller": True}]}, True),
        ({"annotations": {"kubernetes.io/config.mirror": "5f1"}}, False),
    ],
)
def test_a_pod_that_its_node_would_have_back_at_once_is_not_evictable(
    more: dict[str, Any], is_evictable: bool
) -> None:
    assert _parsed(**more).is_evictable is is_evictable


def test_what_pods_have_in_common_is_kept_once() -> None:
    spec = {**ASKS, "nodeName": "gpu-1", "nodeSelector": {"gpushare.io/pool": "training"}}
    one, other = (
        _parsed(spec=deepcopy(spec), annotations=dict(POD_LEDGER), name=name) for name in ("a", "b")
    )
    assert one.requests is other.requests
    assert one.cards is other.cards
    assert one.selects is other.selects


STATIC: dict[str, Any] = {
    "name": "nvidia-device-plugin-gpu-1",
    "labels": {"component": "nvidia-device-plugin"},
    "annotations": {
        "kubernetes.io/config.mirror": "0f5c",
        "kubernetes.io/config.source": "file",
    },
    "ownerReferences": [{"kind": "Node", "name": "gpu-1", "uid": "n", "controller": True}],
}


def _parse_static(namespace: str = "kube-system", **more: Any) -> Pod | None:
    pod = _pod(namespace, spec={"nodeName": "gpu-1", "containers": [{"name": "plugin"}]})
    pod["metadata"] |= STATIC | more
    return parse_pod(pod, plugin_namespace="kube-system")


def test_the_static_plugin_is_told_by_its_label_and_its_source() -> None:
    pod = _parse_static()
    assert pod is not None
    assert (pod.is_static_plugin, pod.daemonset, pod.is_evictable) == (True, "", False)


@pytest.mark.parametrize("key", sorted(STATIC["annotations"]))
def test_either_annotation_of_the_kubelet_tells_a_static_plugin(key: str) -> None:
    pod = _parse_static(annotations={key: STATIC["annotations"][key]})
    assert pod is not None
    assert pod.is_static_plugin


@pytest.mark.parametrize(
    "more",
    [
        {"namespace": "default"},
        {"labels": {"component": "kube-proxy"}},
        {"labels": None},
        {"annotations": {"kubernetes.io/config.source": "api"}},
        {"annotations": None},
    ],
    ids=str,
)
def test_no_other_pod_is_a_static_plugin(more: dict[str, Any]) -> None:
    assert _parse_static(**more) is None


def test_the_daemonsets_pods_carry_the_label_and_are_no_static_plugin() -> None:
    owner = {"kind": "DaemonSet", "name": "ack-nvidia-device-plugin", "uid": "d"}
    pod = _parse_static(annotations={}, ownerReferences=[owner | {"controller": True}])
    assert pod is not None
    assert (pod.is_static_plugin, pod.daemonset) == (False, "ack-nvidia-device-plugin")
