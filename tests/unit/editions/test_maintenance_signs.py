"""What shows that another controller is at work on a node."""

from typing import Any

import pytest

from gpushare.api.k8s.node import Node, parse_node
from gpushare.editions.maintenance import describe_maintenance
from tests.kit.values.manifests import build_node
from tests.kit.values.objects import a_node


def _node(kind: str, key: str, value: str) -> Node:
    raw: dict[str, Any] = build_node("n1")
    if kind == "taint":
        raw["spec"] = {"taints": [{"key": key, "value": value, "effect": "NoSchedule"}]}
    else:
        raw["metadata"].setdefault(f"{kind}s", {})[key] = value
    raw["metadata"].setdefault("uid", "uid-of-n1")
    return parse_node(raw)


@pytest.mark.parametrize(
    ("kind", "key", "value", "controller"),
    [
        ("label", "nvidia.com/gpu-driver-upgrade-state", "upgrade-failed", "GPU Operator"),
        ("label", "nvidia.com/ofed-driver-upgrade-state", "drain-required", "Network Operator"),
        ("label", "nvidia.com/mig.config.state", "rebooting", "GPU Operator"),
        ("label", "nvidia.com/gpu.deploy.driver", "paused-for-driver-upgrade", "GPU Operator"),
        ("label", "nvidia.com/gpu.deploy.client", "a_paused-for-driver-upgrade", "GPU Operator"),
        ("label", "dgxc.nvidia.com/nvsentinel-state", "quarantined", "NVSentinel"),
        ("annotation", "weave.works/kured-reboot-in-progress", "2026-01-02T03:04:05Z", "Kured"),
        ("annotation", "machineconfiguration.openshift.io/state", "Working", "Machine Config"),
        (
            "annotation",
            "flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress",
            "true",
            "Flatcar Linux Update Operator",
        ),
        ("taint", "medik8s.io/drain", "", "Node Maintenance Operator"),
        ("taint", "ToBeDeletedByClusterAutoscaler", "1790000000", "Cluster Autoscaler"),
        ("taint", "karpenter.sh/disrupted", "", "Karpenter"),
    ],
)
def test_a_sign_tells_who_is_at_work_and_how_to_remove_one_that_was_left(
    kind: str, key: str, value: str, controller: str
) -> None:
    told = describe_maintenance(_node(kind, key, value))
    command = "annotate" if kind == "annotation" else kind
    assert controller in told
    assert f"`kubectl {command} node n1 {key}-`" in told


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("label", "nvidia.com/gpu-driver-upgrade-state", "upgrade-done"),
        ("label", "nvidia.com/gpu-driver-upgrade-state", ""),
        ("label", "example.com/gpu-driver-upgrade-state", "drain-required"),
        ("label", "nvidia.com/mig.config.state", "failed"),
        ("label", "nvidia.com/gpu.deploy.driver", "true"),
        ("annotation", "machineconfiguration.openshift.io/state", "Done"),
        ("annotation", "weave.works/kured-most-recent-reboot-needed", "2026-01-02T03:04:05Z"),
        (
            "annotation",
            "flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress",
            "false",
        ),
        ("taint", "node.kubernetes.io/unschedulable", ""),
        ("taint", "DeletionCandidateOfClusterAutoscaler", "1790000000"),
    ],
)
def test_nothing_else_does(kind: str, key: str, value: str) -> None:
    assert describe_maintenance(_node(kind, key, value)) == ""


@pytest.mark.parametrize(
    ("state", "skip", "waits"),
    [
        ("upgrade-required", "true", False),
        ("upgrade-required", "false", True),
        ("drain-required", "true", True),
    ],
)
def test_a_driver_upgrade_that_a_user_skips_on_a_node_never_begins(
    state: str, skip: str, waits: bool
) -> None:
    """NVIDIA's upgrade controller leaves such a node in its first state (gpu-operator#688)."""
    upgrade = "nvidia.com/gpu-driver-upgrade"
    labels = {f"{upgrade}-state": state, f"{upgrade}.skip": skip}
    assert bool(describe_maintenance(a_node(labels=labels))) is waits


def test_two_controllers_are_both_named() -> None:
    raw: dict[str, Any] = build_node("n1")
    raw["metadata"]["labels"] |= {"nvidia.com/mig.config.state": "pending"}
    raw["metadata"] |= {"annotations": {"weave.works/kured-reboot-in-progress": "now"}, "uid": "u"}
    told = describe_maintenance(parse_node(raw))
    assert "The GPU Operator and kured are at work" in told


def test_a_node_that_is_being_deleted_is_left_to_its_finalizers() -> None:
    raw: dict[str, Any] = build_node("n1")
    raw["metadata"] |= {"uid": "u", "deletionTimestamp": "2026-01-02T03:04:05Z"}
    assert "is being deleted" in describe_maintenance(parse_node(raw))
