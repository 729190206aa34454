"""Which DaemonSet of a cluster is one that a mode needs, and what is said where none is."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.api.daemonset import FORMER, DaemonSet, parse_daemonset
from gpushare.api.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.actions import NodeState
from gpushare.core.blockers import find_missing_daemonset
from gpushare.core.member import plan_member
from gpushare.core.modes import GPUSHARE_PLUGIN, MODES
from gpushare.core.observed import Observed, Pass
from gpushare.core.plugindaemonsets import PluginDaemonSets
from gpushare.core.records import parse_records
from gpushare.core.turn import OPEN
from gpushare.names import Reason
from tests.kit.values.objects import NOW, a_node, a_plugin_pod, a_pool, installed

IMAGE = "registry.example.com:5000/acs/k8s-gpushare-plugin:v2@sha256:0"
BYSTANDER = DaemonSet("kube-proxy", frozenset({"kube-proxy"}))
SHARE = MODES[Edition.PROFESSIONAL, Schedule.SHARE]
_TERM = {
    "matchExpressions": [{"key": "ack.node.gpu.schedule", "operator": "In", "values": ["share"]}]
}
_REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}
AFFINITY = {"nodeAffinity": _REQUIRED}


def build(name: str = "some", image: str = "some", **spec: Any) -> DaemonSet:
    template = {"spec": {"containers": [{"name": "main", "image": image}], **spec}}
    return parse_daemonset({"metadata": {"name": name}, "spec": {"template": template}})


@pytest.mark.parametrize(
    "found",
    [
        build("ack-gpushare-plugin"),
        build(image=IMAGE),
        build(nodeSelector={"gpushare": "true"}),
        build(affinity=AFFINITY),
    ],
    ids=["name", "image", "node selector", "node affinity"],
)
def test_a_daemonset_that_may_be_it_is_suggested(found: DaemonSet) -> None:
    daemonsets = PluginDaemonSets(found=frozenset({found, BYSTANDER}))
    assert daemonsets.suggest(GPUSHARE_PLUGIN) == [found.name]
    assert daemonsets.suggest("ack-mps-control") == []


def test_the_likeliest_are_suggested_and_none_that_is_another_component() -> None:
    likely = build("gpushare-plugin", IMAGE, affinity=AFFINITY)
    exporter = build("exporter", affinity=AFFINITY)
    core = build("gpushare-core-device-plugin-ds", IMAGE, affinity=AFFINITY)
    daemonsets = PluginDaemonSets(found=frozenset({likely, exporter, core}))
    assert daemonsets.suggest(GPUSHARE_PLUGIN) == ["gpushare-plugin"]


def test_one_that_lost_its_name_to_another_may_be_it_again() -> None:
    daemonsets = PluginDaemonSets({GPUSHARE_PLUGIN: "gone"}, frozenset({build(GPUSHARE_PLUGIN)}))
    assert GPUSHARE_PLUGIN not in daemonsets.standard
    assert daemonsets.suggest(GPUSHARE_PLUGIN) == [GPUSHARE_PLUGIN]


def test_a_missing_daemonset_is_told_by_the_clusters_name_with_the_value_to_set() -> None:
    names = PluginDaemonSets({GPUSHARE_PLUGIN: "gone"}, frozenset({build("gpushare-plugin")}))
    blocker = find_missing_daemonset(SHARE, [], Pass(NOW, plugin_daemonsets=names))
    assert blocker is not None
    assert blocker.reason is Reason.COMPONENT_MISSING
    assert "needs the DaemonSet gone," in blocker.message
    value = f"called gpushare-plugin here, set the chart's value pluginDaemonSets.{GPUSHARE_PLUGIN}"
    assert value in blocker.message


def test_each_daemonset_that_brings_whole_cards_back_may_have_another_name() -> None:
    whole = MODES[Edition.PROFESSIONAL, Schedule.DEFAULT]
    found = frozenset({build("nvidia-plugin"), build("plugin-nvidia-recover")})
    at = Pass(NOW, plugin_daemonsets=PluginDaemonSets(found=found))
    blocker = find_missing_daemonset(whole, [], at)
    assert blocker is not None
    assert "pluginDaemonSets.ack-nvidia-device-plugin" in blocker.message
    assert "plugin-nvidia-recover here" in blocker.message
    assert f"pluginDaemonSets.{whole.recoverer}" in blocker.message

    names = PluginDaemonSets({whole.recoverer: "plugin-nvidia-recover"}, found)
    assert find_missing_daemonset(whole, [], replace(at, plugin_daemonsets=names)) is None


def test_a_renamed_daemonset_is_there() -> None:
    names = PluginDaemonSets({GPUSHARE_PLUGIN: "renamed"}, frozenset({build("renamed")}))
    at = Pass(NOW, plugin_daemonsets=names)
    assert find_missing_daemonset(SHARE, [], at) is None
    without = replace(at, plugin_daemonsets=installed(frozenset()))
    assert find_missing_daemonset(SHARE, [a_plugin_pod()], without) is None


LEFT = build(GPUSHARE_PLUGIN, nodeSelector={"ack.node.gpu.schedule": "share"})
OFF_POOLS = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "gpushare.io/pool", "operator": "DoesNotExist"}]}
            ]
        }
    }
}
LEFT_POD = a_plugin_pod("left", daemonset=f"{FORMER}{GPUSHARE_PLUGIN}")


@pytest.mark.parametrize(
    ("left", "pods", "blocks"),
    [
        (LEFT, [], True),
        (build(GPUSHARE_PLUGIN), [LEFT_POD], True),
        (build(GPUSHARE_PLUGIN), [], False),
        (build(GPUSHARE_PLUGIN, nodeSelector={"old": "true"}), [], False),
        (LEFT, [a_plugin_pod()], True),
        (BYSTANDER, [LEFT_POD], False),
        (build(GPUSHARE_PLUGIN, nodeSelector={"gpushare.io/pool": "training"}), [], True),
        (build(GPUSHARE_PLUGIN, nodeSelector={"ack.node.gpu.schedule": "cgpu"}), [LEFT_POD], False),
        (build(GPUSHARE_PLUGIN, affinity=OFF_POOLS), [LEFT_POD], False),
    ],
    ids=[
        "the mode's label brings it",
        "it runs there",
        "a taint keeps it off",
        "its node selector keeps it off",
        "its successor runs",
        "it is removed",
        "the pool's label brings it",
        "it leaves with the label of another mode",
        "it leaves with the pool's label",
    ],
)
def test_a_plugin_left_over_blocks_a_change_where_it_would_serve_the_node_beside_its_successor(
    left: DaemonSet, pods: list[Pod], blocks: bool
) -> None:
    names = PluginDaemonSets({GPUSHARE_PLUGIN: "renamed"}, frozenset({build("renamed"), left}))
    at = Pass(NOW, plugin_daemonsets=names)
    seen = Observed(a_node(), pods, parse_records(a_node()))
    plan = plan_member(seen, a_pool(schedule="share"), at, OPEN)
    assert (plan.reason is Reason.COMPETING_PLUGINS) is blocks
    assert (plan.state is NodeState.BLOCKED and plan.action is None) is blocks
    assert (f"DaemonSet {GPUSHARE_PLUGIN} off" in plan.message) is blocks
