"""The whole-card plugin as a static pod: it counts, and nobody restarts it through the API."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.actions import ApplyNode, NodeState
from gpushare.core.modes import MODES
from gpushare.core.observed import Observed, Pass
from gpushare.core.records import Change, NodeRecords, PluginPod, Step, parse_records
from gpushare.core.rollout import plan_restart
from gpushare.core.verify import verify_mode, verify_return
from gpushare.names import LABEL_SCHEDULE, Reason
from tests.kit.members import OURS, a_settled, expect_change, plan_of, under_way
from tests.kit.values import MEMORY, NOW, a_node, a_plugin_pod, a_pool, a_static_plugin, installed

WHOLE = "nvidia.com/gpu"
AT = Pass(NOW + timedelta(minutes=5))
PLUGIN, STATIC = a_plugin_pod(), a_static_plugin()
GPUSHARE_ALONE = frozenset({PLUGIN.daemonset})
RECOVER = a_plugin_pod("recover-1", daemonset="nvidia-device-plugin-recover")
RECOVERABLE = GPUSHARE_ALONE | {RECOVER.daemonset}
BY_RECOVER = replace(AT, plugin_daemonsets=installed(RECOVERABLE))
SHARED, DEFAULT = (MODES[Edition.PROFESSIONAL, Schedule(name)] for name in ("share", "default"))
OFFERS_NONE = a_node(allocatable={WHOLE: 0})


def _change(step: Step, of: str, to: str, **more: Any) -> Change:
    change = under_way(step).change
    assert change is not None
    return change.model_copy(update={"of": Schedule(of), "to": Schedule(to), **more})


def test_the_static_plugin_serves_whole_cards() -> None:
    assert verify_mode(a_node(allocatable={WHOLE: 2}), [STATIC], DEFAULT, AT) is None


@pytest.mark.parametrize("change", [{"ready": False}, {"deleting": True}])
def test_a_static_plugin_that_is_not_ready_serves_nothing(change: dict[str, Any]) -> None:
    pod = replace(STATIC, **change)
    missing = verify_mode(a_node(allocatable={WHOLE: 2}), [pod], DEFAULT, AT)
    assert missing is not None
    assert missing.reason is Reason.PLUGIN_RESTARTING


def test_the_static_plugin_serves_no_shared_mode() -> None:
    missing = verify_mode(a_node(allocatable={MEMORY: 15}), [STATIC], SHARED, AT)
    assert missing is not None
    assert missing.reason is Reason.PLUGIN_RESTARTING


def test_a_static_plugin_that_gives_nothing_is_mended_by_the_vendors_steps_on_the_node() -> None:
    missing = verify_mode(OFFERS_NONE, [STATIC], DEFAULT, AT)
    assert missing is not None
    assert missing.reason is Reason.STATIC_PLUGIN
    assert "deleting its pod restarts nothing" in missing.message
    assert "copy /etc/kubernetes/manifests/nvidia-device-plugin.yml out" in missing.message
    assert "wait 5 s" in missing.message
    assert "never leave a copy in the folder" in missing.message


def test_a_static_plugin_that_has_just_started_has_its_time() -> None:
    at = Pass(NOW + timedelta(seconds=20))
    missing = verify_mode(OFFERS_NONE, [STATIC], DEFAULT, at)
    assert missing is not None
    assert (missing.reason, missing.wait) == (Reason.RESOURCE_NOT_READY, timedelta(seconds=40))


def test_a_node_with_the_static_plugin_needs_no_daemonset_for_whole_cards() -> None:
    node, pool = a_settled(allocatable={MEMORY: 15}), a_pool(schedule="default")
    without = plan_of(node, pool, PLUGIN, daemonsets=GPUSHARE_ALONE)
    assert (without.state, without.reason) == (NodeState.BLOCKED, Reason.COMPONENT_MISSING)
    plan = plan_of(node, pool, PLUGIN, STATIC, daemonsets=GPUSHARE_ALONE)
    assert plan.reason is Reason.CORDONED


def test_a_recover_daemonset_is_enough_to_leave_a_shared_mode_for_whole_cards() -> None:
    node, pool = a_settled(allocatable={MEMORY: 15}), a_pool(schedule="default")
    plan = plan_of(node, pool, PLUGIN, daemonsets=RECOVERABLE)
    assert plan.reason is Reason.CORDONED


@pytest.mark.parametrize("pods", [[RECOVER], [RECOVER, STATIC], [STATIC]])
def test_whole_cards_that_a_recover_daemonset_brought_back_are_verified(pods: list[Pod]) -> None:
    assert verify_mode(a_node(allocatable={WHOLE: 2}), pods, DEFAULT, BY_RECOVER) is None


@pytest.mark.parametrize(
    ("pods", "allocatable", "told"),
    [
        ([], {WHOLE: 2}, "nvidia-device-plugin-recover is not Ready"),
        ([RECOVER], {}, "nvidia-device-plugin.yml back"),
        ([RECOVER, STATIC], {}, "wait 5 s"),
    ],
    ids=["no pod", "no manifest", "no resource"],
)
def test_what_a_recover_daemonset_still_owes_is_told(
    pods: list[Pod], allocatable: dict[str, int], told: str
) -> None:
    missing = verify_mode(a_node(allocatable=allocatable), pods, DEFAULT, BY_RECOVER)
    assert missing is not None
    assert told in missing.message


def test_a_recover_daemonset_stands_in_for_no_plugin_that_is_in_the_cluster() -> None:
    at = replace(AT, plugin_daemonsets=installed(RECOVERABLE | {DEFAULT.plugin}))
    missing = verify_mode(a_node(allocatable={WHOLE: 2}), [RECOVER], DEFAULT, at)
    assert missing is not None
    assert missing.reason is Reason.PLUGIN_RESTARTING


@pytest.mark.parametrize("pods", [[RECOVER], [RECOVER, STATIC]])
def test_a_restart_that_a_recover_daemonset_ends_is_verified(pods: list[Pod]) -> None:
    change = _change(Step.RESTARTING, "share", "default", restart=True)
    node = a_node(allocatable={WHOLE: 1})
    assert verify_return(node, pods, change=change, was_zero=False, at=BY_RECOVER) is None


def test_without_any_form_of_the_whole_card_plugin_it_is_said_how_the_static_pod_returns() -> None:
    plan = plan_of(a_settled(), a_pool(schedule="default"), PLUGIN, daemonsets=GPUSHARE_ALONE)
    assert plan.reason is Reason.COMPONENT_MISSING
    for told in (DEFAULT.plugin, RECOVER.daemonset, "nvidia-device-plugin.yml back"):
        assert told in plan.message


def test_the_static_plugin_stands_in_for_no_other_daemonset() -> None:
    plan = plan_of(a_settled(), a_pool(), STATIC, daemonsets=frozenset())
    assert plan.reason is Reason.COMPONENT_MISSING


def test_a_node_at_rest_with_the_static_plugin_is_ready() -> None:
    node = a_node(labels={LABEL_SCHEDULE: "default"}, allocatable={WHOLE: 2})
    plan = plan_of(node, a_pool(schedule="default"), STATIC, daemonsets=GPUSHARE_ALONE)
    assert isinstance(plan.action, ApplyNode)
    assert '"schedule":"default"' in plan.action.annotations["gpushare.io/applied"]


def test_a_change_to_shared_cards_says_what_the_static_plugin_must_leave() -> None:
    node = a_node(allocatable={MEMORY: 15, WHOLE: 1})
    change = _change(Step.LABELLED, "default", "share")
    missing = verify_return(node, [PLUGIN, STATIC], change=change, was_zero=True, at=AT)
    assert missing is not None
    assert missing.reason is Reason.RESOURCE_NOT_READY
    assert "given out twice" in missing.message
    assert "move /etc/kubernetes/manifests/nvidia-device-plugin.yml" in missing.message


def test_a_change_is_over_once_the_static_plugin_gives_nothing_out() -> None:
    node = a_node(allocatable={MEMORY: 15, WHOLE: 0})
    change = _change(Step.LABELLED, "default", "share")
    assert verify_return(node, [PLUGIN, STATIC], change=change, was_zero=True, at=AT) is None


def test_the_static_plugin_is_never_recorded_for_a_restart() -> None:
    change = _change(Step.LABELLED, "share", "default", restart=True)
    node = a_node(records=NodeRecords(change=change), unschedulable=True)
    action = plan_restart(Observed(node, (STATIC,), parse_records(node)))
    assert action is not None
    assert STATIC.name not in str(action)


def test_the_static_plugin_is_never_deleted_whatever_stands_in_the_record() -> None:
    recorded = (PluginPod(name=STATIC.name, uid=STATIC.uid),)
    change = _change(Step.RESTARTING, "share", "default", restart=True, plugins=recorded)
    node = a_node(
        labels={LABEL_SCHEDULE: "default", **OURS},
        records=under_way(Step.RESTARTING).model_copy(update={"change": change}),
        unschedulable=True,
        owns_cordon=True,
        allocatable={WHOLE: 1},
    )
    plan = plan_of(node, a_pool(schedule="default"), STATIC, now=NOW + timedelta(seconds=5))
    assert plan.action is None


def test_a_change_that_fails_for_the_static_plugin_says_the_vendors_steps_to_the_end() -> None:
    change = _change(Step.LABELLED, "share", "default")
    node = a_node(
        labels={LABEL_SCHEDULE: "default", **OURS},
        records=under_way(Step.LABELLED).model_copy(update={"change": change}),
        unschedulable=True,
        owns_cordon=True,
    )
    plan = plan_of(node, a_pool(schedule="default"), STATIC, now=NOW + timedelta(minutes=10))
    failure = expect_change(plan).failure
    assert failure is not None
    assert (
        "the node does not offer nvidia.com/gpu (allocatable is 0), 600 s after the labels"
        in failure.message
    )
