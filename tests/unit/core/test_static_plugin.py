"""The whole-card plugin as a static pod: it counts, and nobody restarts it through the API."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.diagnosis import NotYet
from gpushare.core.modes import MODES, Mode
from gpushare.core.observed import Observed, Pass
from gpushare.core.records import Change, NodeRecords, PluginPod, Step, parse_records
from gpushare.core.rollout import plan_restart
from gpushare.core.verify import verify_mode, verify_return
from gpushare.names import LABEL_SCHEDULE, Reason
from tests.kit.values.node_plans import (
    OURS,
    a_settled,
    change_of,
    expect_applied,
    expect_change,
    plan_of,
    under_way,
)
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    a_node,
    a_plugin_pod,
    a_pool,
    a_static_plugin,
    installed,
)

WHOLE = "nvidia.com/gpu"
AT = Pass(NOW + timedelta(minutes=5))
PLUGIN, STATIC = a_plugin_pod(), a_static_plugin()
GPUSHARE_ALONE = frozenset({PLUGIN.daemonset})
RECOVER = a_plugin_pod("recover-1", daemonset="nvidia-device-plugin-recover")
RECOVERABLE = GPUSHARE_ALONE | {RECOVER.daemonset}
BY_RECOVER = replace(AT, plugin_daemonsets=installed(RECOVERABLE))
SHARED, DEFAULT = (MODES[Edition.PROFESSIONAL, Schedule(name)] for name in ("share", "default"))
POOL = a_pool(schedule="default")
OFFERS, OFFERS_NONE = a_node(allocatable={WHOLE: 2}), a_node(allocatable={WHOLE: 0})


def _change(step: Step, of: str, to: str, **more: Any) -> Change:
    return change_of(under_way(step, of=Schedule(of), to=Schedule(to), **more))


def _missing(node: Node, pods: list[Pod], mode: Mode = DEFAULT, at: Pass = AT) -> NotYet:
    missing = verify_mode(node, pods, mode, at)
    assert missing is not None
    return missing


def test_the_static_plugin_serves_whole_cards() -> None:
    assert verify_mode(OFFERS, [STATIC], DEFAULT, AT) is None


@pytest.mark.parametrize(
    ("node", "pod", "mode"),
    [
        (OFFERS, replace(STATIC, ready=False), DEFAULT),
        (OFFERS, replace(STATIC, deleting=True), DEFAULT),
        (a_node(allocatable={MEMORY: 15}), STATIC, SHARED),
    ],
    ids=["not ready", "being deleted", "a shared mode"],
)
def test_it_serves_nothing_else_nor_before_it_is_ready(node: Node, pod: Pod, mode: Mode) -> None:
    assert _missing(node, [pod], mode).reason is Reason.PLUGIN_RESTARTING


def test_a_static_plugin_that_gives_nothing_is_mended_by_the_vendors_steps_on_the_node() -> None:
    missing = _missing(OFFERS_NONE, [STATIC])
    assert missing.reason is Reason.STATIC_PLUGIN
    assert "copy /etc/kubernetes/manifests/nvidia-device-plugin.yml out" in missing.message
    assert "never leave a copy in the folder" in missing.message


def test_a_static_plugin_that_has_just_started_has_its_time() -> None:
    missing = _missing(OFFERS_NONE, [STATIC], at=Pass(NOW + timedelta(seconds=20)))
    assert (missing.reason, missing.wait) == (Reason.RESOURCE_NOT_READY, timedelta(seconds=40))


@pytest.mark.parametrize(
    ("pods", "daemonsets", "reason"),
    [
        ((PLUGIN,), GPUSHARE_ALONE, Reason.COMPONENT_MISSING),
        ((PLUGIN, STATIC), GPUSHARE_ALONE, Reason.CORDONED),
        ((PLUGIN,), RECOVERABLE, Reason.CORDONED),
    ],
    ids=["none", "the static plugin", "a recover DaemonSet"],
)
def test_to_leave_a_shared_mode_some_form_of_the_whole_card_plugin_must_be_there(
    pods: tuple[Pod, ...], daemonsets: frozenset[str], reason: Reason
) -> None:
    plan = plan_of(a_settled(), POOL, *pods, daemonsets=daemonsets)
    assert plan.reason is reason
    if reason is Reason.COMPONENT_MISSING:
        for told in (DEFAULT.plugin, RECOVER.daemonset, "nvidia-device-plugin.yml back"):
            assert told in plan.message


@pytest.mark.parametrize("pods", [[RECOVER], [RECOVER, STATIC], [STATIC]])
def test_whole_cards_that_a_recover_daemonset_brought_back_are_verified(pods: list[Pod]) -> None:
    assert verify_mode(OFFERS, pods, DEFAULT, BY_RECOVER) is None
    change = _change(Step.RESTARTING, "share", "default", restart=True)
    assert verify_return(OFFERS, pods, change=change, was_zero=False, at=BY_RECOVER) is None


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
    assert told in _missing(a_node(allocatable=allocatable), pods, at=BY_RECOVER).message


def test_a_recover_daemonset_stands_in_for_no_plugin_that_is_in_the_cluster() -> None:
    at = replace(AT, plugin_daemonsets=installed(RECOVERABLE | {DEFAULT.plugin}))
    assert _missing(OFFERS, [RECOVER], at=at).reason is Reason.PLUGIN_RESTARTING


def test_the_static_plugin_stands_in_for_no_other_daemonset() -> None:
    plan = plan_of(a_settled(), a_pool(), STATIC, daemonsets=frozenset())
    assert plan.reason is Reason.COMPONENT_MISSING


def test_a_node_at_rest_with_the_static_plugin_is_ready() -> None:
    node = a_node(labels={LABEL_SCHEDULE: "default"}, allocatable={WHOLE: 2})
    plan = plan_of(node, POOL, STATIC, daemonsets=GPUSHARE_ALONE)
    assert expect_applied(plan).schedule is Schedule.DEFAULT


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


def _cordoned(change: Change, allocatable: dict[str, int] | None = None) -> Node:
    labels = {LABEL_SCHEDULE: "default", **OURS}
    records = under_way(change.step).model_copy(update={"change": change})
    node = a_node(labels=labels, records=records, allocatable=allocatable or {})
    return replace(node, unschedulable=True, owns_cordon=True)


def test_the_static_plugin_is_never_deleted_whatever_stands_in_the_record() -> None:
    recorded = (PluginPod(name=STATIC.name, uid=STATIC.uid),)
    change = _change(Step.RESTARTING, "share", "default", restart=True, plugins=recorded)
    plan = plan_of(
        _cordoned(change, {WHOLE: 1}),
        POOL,
        STATIC,
        now=NOW + timedelta(seconds=5),
    )
    assert plan.action is None


def test_a_change_that_fails_for_the_static_plugin_says_the_vendors_steps_to_the_end() -> None:
    change = _change(Step.LABELLED, "share", "default")
    plan = plan_of(_cordoned(change), POOL, STATIC, now=NOW + timedelta(minutes=10))
    failure = expect_change(plan).failure
    assert failure is not None
    assert "nvidia.com/gpu (allocatable is 0), 600 s after the labels" in failure.message
