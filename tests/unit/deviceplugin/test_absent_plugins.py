"""Why a DaemonSet has no Ready pod on a node, as the message tells."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.api.k8s.daemonset import DaemonSet, parse_daemonset
from gpushare.api.k8s.pod import Pod, parse_pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.verification import verify_mode
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from tests.kit.values.node_plans import INSTALLER, expect_cause, observe
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, installed

CGPU = MODES[Edition.PROFESSIONAL, Schedule.CGPU]
BASIC_DEFAULT = MODES[Edition.BASIC, Schedule.DEFAULT]
RECOVER = "device-plugin-recover-ds"
REFUSED = "Failed to start device plugin: device plugin already connected: aliyungpushare.sock"
WAITS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"}}


def parse_plugin(
    state: dict[str, Any], ended: dict[str, Any], namespace: str = "kube-system"
) -> Pod | None:
    """The plugin's pod as the API server has it, with a container in this state."""
    owner = {"kind": "DaemonSet", "name": "gpushare-device-plugin-ds", "controller": True}
    meta = {"name": "p", "namespace": namespace, "uid": "p", "ownerReferences": [owner]}
    container = {"name": "gpushare", "restartCount": 7, "state": state, "lastState": ended}
    status = {"phase": "Running", "containerStatuses": [container]}
    raw = {"metadata": meta, "spec": {"nodeName": "gpu-1"}, "status": status}
    return parse_pod(raw, plugin_namespaces=("kube-system",))


@pytest.mark.parametrize(
    ("state", "ended", "told"),
    [
        (WAITS, {"terminated": {"exitCode": 1, "message": f"{REFUSED}\n"}}, ["code 1", REFUSED]),
        (WAITS, {"terminated": {"exitCode": 137}}, ["7 restarts", "code 137)"]),
        (WAITS, {}, ["container gpushare", "CrashLoopBackOff"]),
        ({"running": {}}, {"terminated": {"exitCode": 1, "message": REFUSED}}, []),
        ({"waiting": {"reason": "ContainerCreating"}}, {}, []),
    ],
    ids=["with its last words", "killed", "just refused", "runs again", "just begins"],
)
def test_a_plugin_that_crash_loops_is_read_with_how_it_ended(
    state: dict[str, Any], ended: dict[str, Any], told: list[str]
) -> None:
    pod = parse_plugin(state, ended)
    assert pod is not None
    assert bool(pod.crash) is bool(told)
    assert [word for word in told if word not in pod.crash] == []


def test_the_end_of_a_long_message_is_read() -> None:
    pod = parse_plugin(WAITS, {"terminated": {"exitCode": 2, "message": "x" * 5000 + REFUSED}})
    assert pod is not None
    assert pod.crash.endswith(REFUSED)
    assert len(pod.crash) < 250


def explain(pods: list[Pod], daemonsets: PluginDaemonSets, **node: Any) -> Cause | None:
    ctx = ReconcileContext(NOW, plugin_daemonsets=daemonsets)
    return verify_mode(observe(a_node(allocatable={MEMORY: 15}, **node), pods), CGPU, ctx)


def test_a_plugin_that_crash_loops_is_told_with_the_log_and_the_kubelets_restart() -> None:
    crash = "container gpushare is in CrashLoopBackOff (7 restarts, last exit code 1)"
    plugin = a_plugin_pod(ready=False, ready_since=None, crash=crash)
    told = explain([INSTALLER, plugin], installed([plugin.daemonset]))
    logs = f"kubectl -n kube-system logs {plugin.name} --previous"
    words = (crash, logs, "already connected", "systemctl restart kubelet")
    expect_cause(told, Reason.PLUGIN_RESTARTING, *words)
    refused = explain(
        [INSTALLER, replace(plugin, crash=f"{crash}: {REFUSED}")], installed([plugin.daemonset])
    )
    # A status shows the beginning.
    shown = expect_cause(refused, Reason.PLUGIN_RESTARTING).message[:240]
    assert "CrashLoopBackOff" in shown
    assert "systemctl restart kubelet" in shown
    leaving = [INSTALLER, replace(plugin, deleting=True)]
    told = explain(leaving, installed([plugin.daemonset]))
    assert crash not in expect_cause(told, Reason.PLUGIN_RESTARTING).message


def of_daemonset(name: str, **spec: Any) -> PluginDaemonSets:
    raw = {"metadata": {"name": name}, "spec": {"template": {"spec": spec}}}
    return PluginDaemonSets(daemonsets=frozenset({parse_daemonset(raw)}))


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """Each term is one requirement."""
    found = [{"matchExpressions": [term]} for term in terms]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}
    return {"nodeAffinity": required}


HAS_CARDS = {"key": "aliyun.accelerator/nvidia_name", "operator": "Exists"}
IN_ZONES = {"key": "zone", "operator": "In", "values": ["b", "a"]}


@pytest.mark.parametrize(
    ("spec", "lacks"),
    [
        ({"nodeSelector": {"recover": "yes", "group": "gpu"}}, "does not match recover=yes."),
        ({"affinity": affinity(HAS_CARDS)}, "does not match aliyun.accelerator/nvidia_name."),
        ({"affinity": affinity(IN_ZONES)}, "does not match zone in (a, b)."),
    ],
    ids=["node selector", "affinity: a label", "affinity: a value"],
)
def test_where_a_daemonset_does_not_select_the_node_the_missing_label_is_told(
    spec: dict[str, Any], lacks: str
) -> None:
    ctx = ReconcileContext(NOW, plugin_daemonsets=of_daemonset(RECOVER, **spec))
    told = verify_mode(observe(a_node(labels={"zone": "c"}), []), BASIC_DEFAULT, ctx)
    expect_cause(told, Reason.COMPONENT_NOT_READY, RECOVER, lacks)


@pytest.mark.parametrize("spec", [{}, {"nodeSelector": {"group": "gpu"}}], ids=["all", "by label"])
def test_where_a_daemonset_selects_the_node_its_pods_are_to_be_looked_at(
    spec: dict[str, Any],
) -> None:
    ctx = ReconcileContext(NOW, plugin_daemonsets=of_daemonset(RECOVER, **spec))
    told = verify_mode(observe(a_node(), []), BASIC_DEFAULT, ctx)
    words = (f"-n kube-system describe daemonset {RECOVER}", "Pending")
    expect_cause(told, Reason.COMPONENT_NOT_READY, *words)


def test_a_pod_that_is_there_is_looked_at_whatever_its_daemonset_selects() -> None:
    """The DaemonSet's template may have changed since."""
    ctx = ReconcileContext(NOW, plugin_daemonsets=of_daemonset(RECOVER, nodeSelector={"a": "b"}))
    pod = a_plugin_pod(daemonset=RECOVER, ready=False, ready_since=None)
    told = verify_mode(observe(a_node(), [pod]), BASIC_DEFAULT, ctx)
    expect_cause(told, Reason.COMPONENT_NOT_READY, "get pods -o wide")


GPU_PRESENT = [
    {"key": "feature.node.kubernetes.io/pci-10de.present", "operator": "In", "values": ["true"]},
    {"key": "feature.node.kubernetes.io/cpu-model.vendor_id", "operator": "In", "values": ["N"]},
    {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]},
]
"""The terms of NVIDIA's chart."""


@pytest.mark.parametrize("labels", [{}, {"nvidia.com/gpu.present": "true"}])
def test_of_nvidias_affinity_one_term_is_enough(labels: dict[str, str]) -> None:
    (found,) = of_daemonset("nvdp", affinity=affinity(*GPU_PRESENT)).daemonsets
    unmet = found.selection.describe_unmet("gpu-1", labels)
    expected = () if labels else ("feature.node.kubernetes.io/pci-10de.present in (true)",)
    assert unmet == expected


@pytest.mark.parametrize(
    ("demand", "told"),
    [
        ({"operator": "Exists"}, "k"),
        ({"operator": "DoesNotExist"}, "!k"),
        ({"operator": "NotIn", "values": ["a"]}, "k notin (a)"),
        ({"operator": "Gt", "values": ["4"]}, "k > 4"),
        ({"operator": "Lt", "values": ["4"]}, "k < 4"),
    ],
)
def test_an_unmet_requirement_is_told_as_a_label_selector(
    demand: dict[str, Any], told: str
) -> None:
    (found,) = of_daemonset("x", affinity=affinity({"key": "k", **demand})).daemonsets
    labels = {"k": "a"} if demand["operator"] in ("DoesNotExist", "NotIn") else {}
    assert found.selection.describe_unmet("gpu-1", labels) == (told,)


def test_nvidias_daemonset_is_found_under_its_releases_name() -> None:
    nvidias = DaemonSet("nvdp", standard="nvidia-device-plugin-daemonset")
    found = PluginDaemonSets(nvidia_namespace="nvidia", nvidia=frozenset({nvidias}))
    assert found.find("nvidia-device-plugin-daemonset") == nvidias
