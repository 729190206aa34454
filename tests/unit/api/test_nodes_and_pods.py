"""What is read of Nodes and Pods."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.daemonset import list_standard_names
from gpushare.api.k8s.gpu_request import count_gpu_requests
from gpushare.api.k8s.node import MAX_CARDS, parse_node
from gpushare.api.k8s.pod import MAX_MESSAGE, Pod, parse_pod
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.api.k8s.resources.quantity import MAX_QUANTITY, parse_quantity


def _entry(manager: str, operation: str = "Apply", **more: Any) -> dict[str, Any]:
    notes: dict[str, Any] = {"f:gpushare.io/initial-values": {}}
    metadata = {"f:labels": {"f:cgpu": {}}, "f:annotations": notes}
    fields = {"f:metadata": metadata, "f:spec": {"f:unschedulable": {}}}
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


def _node(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": "gpu-1", "uid": "1", "managedFields": list(entries)}
    return {"metadata": metadata, **more}


def test_ownership_is_read_from_our_entry_of_managed_fields() -> None:
    entries = _entry("kubectl"), _entry(names.FIELD_MANAGER)
    node = parse_node(_node(*entries, spec={"unschedulable": True}))
    assert node.owned == {"cgpu", "gpushare.io/initial-values"}
    assert (node.owns_cordon, node.cordoned_by) == (True, frozenset({"kubectl"}))
    # What we own is that it is not cordoned.
    assert not parse_node(_node(*entries)).owns_cordon


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
        *[("007", 7), ("9" * 19, 2**40), ("9" * 99, 2**40)],
        *[("2.5k", 2500), ("2000m", 2), ("1.0", 1), ("+4", 4)],
        *[("", None), ("5.5", None), ("-1", None), ("1e999", None), ("\u0663", None)],
    ],
)
def test_quantities_are_whole_numbers(text: str | int, amount: int | None) -> None:
    assert parse_quantity(text) == amount


def _pod(namespace: str = "default", **more: Any) -> dict[str, Any]:
    spec = more.pop("spec", {})
    metadata = {"namespace": namespace, "name": "pod", "uid": "1", **more}
    return {"metadata": metadata, "spec": spec}


def _parse(namespace: str = "default", **more: Any) -> Pod | None:
    return parse_pod(_pod(namespace, **more), plugin_namespaces=("kube-system",))


def _parsed(
    namespace: str = "default", *, status: dict[str, Any] | None = None, **more: Any
) -> Pod:
    raw = _pod(namespace, **{"spec": ASKS, **more}) | {"status": status or {}}
    pod = parse_pod(raw, plugin_namespaces=("kube-system",))
    assert pod is not None
    return pod


def test_a_pod_is_ready_since_its_creation_at_the_earliest_whatever_its_nodes_clock() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:03:05Z"}
    created = "2026-01-02T03:04:05Z"
    pod = _parsed(status={"conditions": [ready]}, creationTimestamp=created)
    assert pod.ready_since == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


OWNED = {"ownerReferences": [{"kind": "DaemonSet", "name": "plugin", "controller": True}]}
ASKS = {"containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}]}


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
@pytest.mark.parametrize("owners", [[], ["DaemonSet"]], ids=["of nobody", "a DaemonSet's"])
def test_a_plugin_is_known_by_its_owner_and_namespace(namespace: str, owners: list[str]) -> None:
    """Other pods that ask for nothing are not kept: no decision depends on them."""
    pod = _parse(namespace, **(OWNED if owners else {}))
    is_plugin = bool(owners) and namespace == "kube-system"
    assert (pod and pod.daemonset) == ("plugin" if is_plugin else None)


@pytest.mark.parametrize(
    ("owner", "known_as"), [("renamed", "plugin"), ("agent", "agent"), ("plugin", "former plugin")]
)
def test_a_renamed_daemonset_is_known_by_its_standard_name(owner: str, known_as: str) -> None:
    owners = [{"kind": "DaemonSet", "name": owner, "controller": True}]
    pod = parse_pod(
        _pod("kube-system", ownerReferences=owners),
        plugin_namespaces=("kube-system",),
        standard_names=list_standard_names({"plugin": "renamed"}),
    )
    assert (pod and pod.daemonset) == known_as


def _count(spec: dict[str, Any]) -> Mapping[str, int]:
    shape = parse_pod_shape({"spec": spec}).spec
    assert shape is not None
    return count_gpu_requests(shape)


def _asks(units: int | str, **more: str) -> dict[str, Any]:
    return {"resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}, **more}


def _sidecar(units: int) -> dict[str, Any]:
    return _asks(units, restartPolicy="Always")


@pytest.mark.parametrize(
    ("containers", "units"),
    [
        ([_asks(3), {"resources": {"requests": {"aliyun.com/gpu-mem": "2"}}}, {}], 5),
        ([_asks("1.5Q")], 1),
        ([_asks(0)], None),
    ],
    ids=["they add up, as limits or requests", "not understood, it is one", "zero is none"],
)
def test_containers_requests_are_counted(
    containers: list[dict[str, Any]], units: int | None
) -> None:
    assert _count({"containers": containers}).get("aliyun.com/gpu-mem") == units


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


@pytest.mark.parametrize("owners", [{}, OWNED], ids=["of nobody", "a DaemonSet's"])
def test_modes_are_selected_by_node_selector_and_required_affinity(owners: dict[str, Any]) -> None:
    """A DaemonSet's pod waits for nobody."""
    many = [{"key": f"zone-{number}", "operator": "Exists"} for number in range(1500)]
    wanted = {"key": "cgpu", "operator": "In", "values": ["true"]}
    term = {"matchExpressions": [wanted, *many]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {
        "nodeSelector": {"ack.node.gpu.schedule": "share", "zone": "a"},
        "affinity": {"nodeAffinity": required},
    }
    selected = {("ack.node.gpu.schedule", "share"), ("cgpu", "true")}
    assert _parsed("kube-system", spec=spec, **owners).selects == (set() if owners else selected)


def test_nulls_where_lists_could_be_are_taken_as_empty() -> None:
    spec = {**ASKS, "initContainers": None, "nodeSelector": None, "affinity": None}
    assert _parsed(spec=spec, ownerReferences=None).requests == {"aliyun.com/gpu-mem": 3}


POD_LEDGER = {"scheduler.framework.gpushare.allocation": '{"0": {"1": 3}}'}
WHOLE = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}


@pytest.mark.parametrize(
    ("spec", "cards"),
    [({**ASKS, "nodeName": "gpu-1"}, {1: 3}), (ASKS, {}), ({**WHOLE, "nodeName": "gpu-1"}, {})],
    ids=["bound", "left by a failed binding", "it asks for no memory"],
)
def test_a_pods_cards_are_read_from_the_ledger(spec: dict[str, Any], cards: dict[int, int]) -> None:
    assert _parsed(spec=spec, annotations=POD_LEDGER).cards == cards


def test_init_containers_count_for_what_an_entry_may_give() -> None:
    for starting, cards in ([], {}), ([_asks(1)], {1: 3}):
        spec = {"containers": [_asks(2)], "initContainers": starting, "nodeName": "gpu-1"}
        assert _parsed(spec=spec, annotations=POD_LEDGER).cards == cards


@pytest.mark.parametrize(
    ("label", "per_card"),
    [("2", 6), ("1", 12), ("0", 12), ("-2", 12), ("two", 12), ("", 12), ("9" * 60, 12)],
)
def test_memory_is_spread_over_the_cards_that_a_label_counts(label: str, per_card: int) -> None:
    spec = {"containers": [_asks(12)]}
    pod = _parsed(spec=spec, labels={"aliyun.com/gpu-count": label})
    assert (pod.gpu_memory, pod.gpu_memory_per_card(is_extended=False)) == (12, per_card)
    assert pod.gpu_memory_per_card(is_extended=True) == 12


def test_the_extender_counts_containers_and_kube_scheduler_sidecars_too() -> None:
    spec = {"containers": [_asks(2)], "initContainers": [_sidecar(3)], "nodeName": "gpu-1"}
    pod = _parsed(spec=spec, annotations={"ALIYUN_COM_GPU_MEM_IDX": "1"})
    assert (pod.gpu_memory, pod.cards) == (5, {1: 2})
    assert pod.gpu_memory_per_card(is_extended=True) == 2


@pytest.mark.parametrize(
    ("reason", "message", "kept"),
    [
        ("Unschedulable", "0/3 nodes are available", "0/3 nodes are available"),
        ("Unschedulable", "x" * 10_000, "x" * MAX_MESSAGE),
        ("SchedulingGated", "0/3 nodes are available", ""),
    ],
    ids=["kept", "cut", "held back"],
)
def test_why_the_scheduler_found_none_is_kept_and_cut(reason: str, message: str, kept: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    conditions = [{"type": "Ready", "status": "False"}, condition]
    assert _parsed(status={"conditions": conditions}).unschedulable == kept


def test_the_age_of_a_pod_is_kept() -> None:
    pod = _parsed(creationTimestamp="2026-01-02T03:04:05Z")
    assert pod.created == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


_EXISTS = [{"key": "zone", "operator": "Exists"}] * 1001
_TERMS = {"nodeSelectorTerms": [{"matchExpressions": _EXISTS}]}
_REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": _TERMS}
TOO_LONG = {**ASKS, "affinity": {"nodeAffinity": _REQUIRED}}


@pytest.mark.parametrize(
    ("more", "unrouted"),
    [
        ({"spec": ASKS}, True),
        ({"spec": {**ASKS, "nodeName": "gpu-1"}}, True),
        ({"spec": {**ASKS, "nodeSelector": {"cgpu": "true"}}}, False),
        ({"spec": TOO_LONG}, True),
        ({"spec": ASKS, **OWNED}, False),
        ({"spec": {**ASKS, "schedulingGates": [{"name": "queue"}]}}, False),
        ({"spec": WHOLE}, False),
    ],
)
def test_unrouted_is_a_pod_that_admission_would_have_sent_somewhere(
    more: dict[str, Any], unrouted: bool
) -> None:
    """But for the node that the scheduler wrote since."""
    assert _parsed(**more).unrouted is unrouted


@pytest.mark.parametrize("scheduler", ["default-scheduler", "gpu-scheduler", "volcano"])
def test_whose_pods_nobody_routed_depends_on_the_installations_schedulers(scheduler: str) -> None:
    known = ("default-scheduler", "gpu-scheduler")
    raw = _pod(spec={**ASKS, "schedulerName": scheduler})
    pod = parse_pod(raw, plugin_namespaces=("kube-system",), schedulers=known)
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
    "annotations": {"kubernetes.io/config.mirror": "0f5c", "kubernetes.io/config.source": "file"},
    "ownerReferences": [{"kind": "Node", "name": "gpu-1", "uid": "n", "controller": True}],
}


def _parse_static(namespace: str = "kube-system", **more: Any) -> Pod | None:
    spec = {"nodeName": "gpu-1", "containers": [{"name": "plugin"}]}
    return _parse(namespace, spec=spec, **STATIC | more)


@pytest.mark.parametrize("left_out", ["", *STATIC["annotations"]])
def test_a_static_plugin_is_known_by_its_label_and_either_annotation_of_kubelet(
    left_out: str,
) -> None:
    annotations = {key: value for key, value in STATIC["annotations"].items() if key != left_out}
    pod = _parse_static(annotations=annotations)
    assert pod is not None
    assert (pod.is_static_plugin, pod.daemonset) == (True, "")


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
