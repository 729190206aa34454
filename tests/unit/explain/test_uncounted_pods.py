"""Pods that nobody counts: what `explain node`, `doctor` and `plan` say of them."""

from dataclasses import replace

import pytest

from gpushare.analysis.doctor.nodes import judge_nodes
from gpushare.analysis.explain.nodes import explain_node
from gpushare.analysis.finding import FindingCode, Severity
from gpushare.analysis.forecast.pools import forecast_pools
from gpushare.analysis.inspect.pools import plan_snapshot
from gpushare.api.k8s.gpu_request import ALL_DEVICES
from gpushare.api.k8s.pod import Pod
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.settings import Settings
from tests.kit.values.node_plans import a_settled
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    PRO_INSTALLED,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)

NODE = a_settled(allocatable={MEMORY: 30}, gpu_count=2)
PLUGIN = a_plugin_pod()
HOLDER = a_gpu_pod("notebook", requests={}, unrequested="hostPath /dev/nvidia0")
RUNNER = a_gpu_pod("runner", requests={}, unrequested=ALL_DEVICES)
UNKNOWN = a_gpu_pod("plugin", requests={}, daemonset="unknown device plugin")
TWO = a_gpu_pod("two", has_card=None)
POOL = a_pool(schedule="share")


@pytest.mark.parametrize(
    ("pod", "code", "told"),
    [
        (HOLDER, FindingCode.UNREQUESTED_CARDS, "default/notebook (hostPath /dev/nvidia0)"),
        (RUNNER, FindingCode.ALL_DEVICES, "default/runner"),
        (UNKNOWN, FindingCode.UNKNOWN_PLUGIN, "default/plugin"),
        (TWO, FindingCode.WITHOUT_CARD, "default/two"),
    ],
)
def test_they_are_named_by_explain_node_and_doctor(pod: Pod, code: FindingCode, told: str) -> None:
    snapshot = a_snapshot(pools=(POOL,), nodes=(NODE,), pods=(PLUGIN, pod))
    planner = plan_snapshot(snapshot, Settings(), NOW)
    findings = explain_node(snapshot, planner, "gpu-1", NOW).findings
    assert [told in each.message for each in findings if each.code is code] == [True]

    ctx = ReconcileContext(NOW, plugin_daemonsets=PRO_INSTALLED)
    found = {each.code: each for each in judge_nodes(snapshot, planner, ctx, knows_pools=True)}
    assert told in found[code].message
    assert "serve the mode of their labels" in found[FindingCode.PLUGINS_SERVE].message


def test_none_of_them_makes_its_node_a_problem_of_its_pool() -> None:
    for pod in (HOLDER, RUNNER, UNKNOWN, TWO):
        snapshot = a_snapshot(pools=(POOL,), nodes=(NODE,), pods=(PLUGIN, pod))
        findings = explain_node(snapshot, plan_snapshot(snapshot, Settings(), NOW), "gpu-1", NOW)
        assert max(each.severity.rank for each in findings.findings) < Severity.ERROR.rank


def test_what_ended_and_what_is_on_a_node_without_cards_is_not_named() -> None:
    ended = [replace(each, phase="Failed") for each in (HOLDER, RUNNER, UNKNOWN, TWO)]
    elsewhere = [replace(each, node="cpu") for each in (HOLDER, RUNNER, UNKNOWN)]
    nodes = (NODE, a_node("cpu", capacity={}))
    snapshot = a_snapshot(pools=(POOL,), nodes=nodes, pods=(PLUGIN, *ended, *elsewhere))
    planner = plan_snapshot(snapshot, Settings(), NOW)
    codes = {
        FindingCode.UNREQUESTED_CARDS,
        FindingCode.ALL_DEVICES,
        FindingCode.UNKNOWN_PLUGIN,
        FindingCode.WITHOUT_CARD,
    }
    for node in ("gpu-1", "cpu"):
        findings = explain_node(snapshot, planner, node, NOW).findings
        assert codes.isdisjoint(each.code for each in findings)


def test_a_plan_that_changes_a_node_names_them() -> None:
    pool = a_pool(schedule="cgpu")
    for pods in ((HOLDER, RUNNER), ()):
        snapshot = a_snapshot(pools=(pool,), nodes=(NODE,), pods=(PLUGIN, *pods))
        (found,) = forecast_pools(snapshot, {pool.name}, Settings(), NOW)
        named = {FindingCode.UNREQUESTED_CARDS, FindingCode.ALL_DEVICES} & {
            each.code for each in found.limits
        }
        assert len(named) == len(pods)
