"""Nodes whose mode is an entry of a ConfigMap: joining, edited content, and what keeps away."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.k8s.daemonset import NVIDIA_MPS_DAEMONSET as MPS_DAEMON
from gpushare.api.k8s.node import Node
from gpushare.api.nvidia_plugin import NvidiaConfig
from gpushare.api.pool import Edition
from gpushare.core.nodechange.reconcile_node import plan_node
from gpushare.core.records.change_record import Change, ChangePhase, Failure, PluginPod
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import ApplyNode, NodePlan, NodeState, RecordPlugins
from gpushare.core.snapshot.change_policy import build_attempt
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.plugin_config_map import parse_config, read_entry
from gpushare.editions.plugin_configs import PluginConfigs
from gpushare.names import Reason
from tests.kit.values.configurations import (
    EDITED,
    GPU,
    HOLDER,
    KEY,
    LOADED,
    PLUGIN,
    PODS,
    POOL,
    SLICES,
    build_pool,
    context,
    member,
    node,
    step,
)
from tests.kit.values.objects import NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool


def test_a_node_that_shows_the_configuration_joins_with_its_pods() -> None:
    plan = step(node({KEY: "a"}), HOLDER)
    assert isinstance(plan.action, ApplyNode)
    assert not plan.action.cordon
    assert plan.action.labels == {KEY: "a", POOL: "training"}


@pytest.mark.parametrize(
    "found",
    [node({KEY: "a"}, offered=2), node({KEY: "b"}), node()],
    ids=["it offers something else", "another key", "no key"],
)
def test_a_node_that_does_not_waits_for_its_pods(found: Node) -> None:
    plan = step(found, HOLDER)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    assert step(found).verdict.start is not None


@pytest.mark.parametrize("resource", [GPU, "nvidia.com/gpu.shared"])
def test_pods_of_either_name_hold_a_change_up(resource: str) -> None:
    plan = step(
        member(parse_config("a", EDITED)),
        a_gpu_pod(requests={resource: 1}),
        pool=build_pool(on_config_change="RollOut"),
    )
    assert plan.reason is Reason.WORKLOADS_PRESENT


def test_edited_content_is_told_of_a_node_that_stays_ready() -> None:
    plan = step(member(), ctx=context(EDITED))
    assert (plan.state, plan.reason) == (NodeState.READY, Reason.CONFIG_CHANGED)
    assert plan.action is None


def test_edited_content_is_rolled_out_where_the_pool_says_so() -> None:
    plan = step(member(), pool=build_pool(on_config_change="RollOut"), ctx=context(EDITED))
    assert plan.verdict.start is not None
    assert plan.kind is not None
    assert plan.kind.from_mode == LOADED
    assert plan.kind.to == parse_config("a", EDITED)


@pytest.mark.parametrize("policy", ["Report", "RollOut"])
def test_a_configuration_that_is_gone_changes_nothing_on_a_node_that_has_loaded_it(
    policy: str,
) -> None:
    plan = step(member(), pool=build_pool(on_config_change=policy), ctx=context(key="b"))
    assert (plan.state, plan.action, plan.verdict.start) == (NodeState.READY, None, None)
    assert plan.reason is Reason.CONFIG_CHANGED
    assert "has no key a" in plan.message


@pytest.mark.parametrize(
    ("found", "ctx", "reason"),
    [
        (node(), context(key="b"), Reason.CONFIG_MISSING),
        (node(), context(config_map=""), Reason.CONFIG_MISSING),
        (node({"nvidia.com/gpu-driver-upgrade-state": "drain-required"}), context(), None),
        (node({"nvidia.com/mig.config.state": "rebooting"}), context(), None),
        (node({"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig"}), context(), None),
        (node({"nvidia.com/mig.config": "all-1g.5gb"}), context(), Reason.MIG_NODE),
        (node({"nvidia.com/gpu.product": "A100-MIG-1g.5gb"}), context(), Reason.MIG_NODE),
    ],
)
def test_what_keeps_a_node_from_its_configuration_is_told_before_the_cordon(
    found: Node, ctx: ReconcileContext, reason: Reason | None
) -> None:
    plan = step(found, ctx=ctx)
    assert plan.state is NodeState.BLOCKED
    assert plan.reason is (reason or Reason.UNDER_MAINTENANCE)
    assert (plan.action, plan.verdict.start) == (None, None)


@pytest.mark.parametrize(
    "label",
    [
        {"nvidia.com/gpu-driver-upgrade-state": "drain-required"},
        {"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig"},
        {"nvidia.com/mig.config": "all-1g.5gb"},
        {"nvidia.com/gpu.product": "A100-MIG-1g.5gb"},
    ],
)
def test_a_label_that_the_gpu_operator_may_have_left_is_told_with_the_command_that_removes_it(
    label: dict[str, str],
) -> None:
    (key,) = label
    assert f"`kubectl label node gpu-1 {key}-`" in step(node(label)).message


def test_a_label_that_does_not_tell_of_mig_devices_is_none_to_remove() -> None:
    split = replace(
        node({"nvidia.com/gpu.product": "A100"}), allocatable={"nvidia.com/mig-1g.5gb": 1}
    )
    assert "kubectl label" not in step(split).message


def test_maintenance_that_is_over_keeps_nobody_away() -> None:
    labels = {
        "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
        "nvidia.com/mig.config": "all-disabled",
        "nvidia.com/mig.config.state": "success",
        "nvidia.com/gpu.deploy.device-plugin": "true",
    }
    assert step(node(labels)).verdict.start is not None


def test_without_its_daemonsets_the_value_of_the_chart_is_told() -> None:
    found = node()
    seen = NodeSnapshot(found, (), parse_records(found))
    plan = plan_node(seen, build_pool(), ReconcileContext(NOW))
    assert plan.reason is Reason.COMPONENT_MISSING
    assert "nvidia.namespace" in plan.message


@pytest.mark.parametrize("ctx", [context(config_map=""), context(key="b")])
def test_a_label_that_nobody_reads_makes_no_node_ready(ctx: ReconcileContext) -> None:
    plan = step(node({KEY: "a"}, offered=2), ctx=ctx)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.CONFIG_MISSING)
    assert plan.action is None


def test_a_node_whose_plugin_is_not_back_yet_is_waited_for() -> None:
    bare = a_node(labels={KEY: "a"}, allocatable={})
    seen = NodeSnapshot(bare, (), parse_records(bare))
    plan = plan_node(seen, build_pool(rollout={"workloads": "Evict"}), context())
    assert plan.verdict.start is None


def under_change(phase: ChangePhase, *, to: NvidiaConfig = LOADED, **more: Any) -> Node:
    """A member whose plugin has loaded `b` and is to load something else."""
    change = Change(
        pool="training",
        edition=Edition.NVIDIA,
        from_mode=more.pop("from_mode", parse_config("b", SLICES)),
        to=to,
        phase=phase,
        since=NOW,
        restart=True,
        labelled_at=more.pop("labelled_at", NOW),
        plugins=(PluginPod(name="old", uid="old"),),
        **more,
    )
    records = parse_records(member(change.from_mode)).model_copy(update={"change": change})
    return node({KEY: "a", POOL: "training"}, records=records, unschedulable=True)


def test_a_change_leads_to_the_content_that_its_plugin_will_load() -> None:
    plan = step(under_change(ChangePhase.LABELLED), ctx=context(EDITED))
    assert isinstance(plan.action, ApplyNode)
    written = Change.model_validate_json(plan.action.annotations["gpushare.io/change"])
    assert written.to == parse_config("a", EDITED)
    assert isinstance(step(under_change(ChangePhase.LABELLED)).action, RecordPlugins)


def failed(ctx: ReconcileContext, *, labels: dict[str, str] | None = None, **more: Any) -> NodePlan:
    """The step of a node whose change failed, in a pool that rolls back."""
    pool = build_pool(rollout={"on_failure": "Rollback"})
    failure = Failure(
        attempt=build_attempt(pool, ""),
        phase=ChangePhase.RESTARTING,
        reason="DeadlineExceeded",
        message="too late",
        at=NOW,
    )
    found = under_change(ChangePhase.RESTARTING, failure=failure, **more)
    found = replace(found, labels={**found.labels, **(labels or {})}, allocatable={})
    return step(found, pool=pool, ctx=ctx)


def with_both(text: str = SLICES) -> ReconcileContext:
    """The entries `a` and `b`, this being that of `b`."""
    ctx = context()
    configs = {"configs": PluginConfigs("configs", {"a": SLICES, "b": text}, read_entry)}
    return replace(ctx, plugin_daemonsets=replace(ctx.plugin_daemonsets, configs=configs))


def test_a_change_that_failed_is_rolled_back_to_what_the_config_map_still_has() -> None:
    plan = failed(with_both())
    assert isinstance(plan.action, ApplyNode)
    for ctx in (with_both(EDITED), context()):
        plan = failed(ctx)
        assert plan.action is None
        assert "Not rolled back" in plan.message


def test_a_change_from_a_label_that_was_removed_has_nothing_to_be_rolled_back_to() -> None:
    assert "no former mode" in failed(with_both(), from_mode=NvidiaConfig("")).message


def test_a_rollback_waits_for_the_gpu_operator() -> None:
    plan = failed(with_both(), labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"})
    assert plan.action is None
    assert "upgrade-failed" in plan.message


def test_a_restart_that_loaded_edited_content_is_told_as_such() -> None:
    restarted = replace(member(), allocatable={GPU: 16})
    plan = step(restarted, ctx=context(EDITED))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.CONFIG_CHANGED)


def test_an_aborted_change_keeps_its_kind() -> None:
    change = Change(
        pool="training",
        edition=Edition.NVIDIA,
        from_mode=parse_config("b", SLICES),
        to=LOADED,
        phase=ChangePhase.DEFERRED,
        since=NOW,
        not_before=NOW + timedelta(seconds=20),
    )
    records = parse_records(member(change.from_mode)).model_copy(update={"change": change})
    waiting = node({KEY: "b", POOL: "training"}, records=records)
    plan = step(waiting, ctx=with_both())
    assert plan.kind is not None
    assert plan.kind.to == LOADED


@pytest.mark.parametrize("phase", [ChangePhase.LABELLED, ChangePhase.RESTARTING])
def test_no_plugin_is_replaced_and_no_label_put_back_under_pods(phase: ChangePhase) -> None:
    changing, old = under_change(phase), a_plugin_pod("old", daemonset=PLUGIN)
    plan = step(changing, HOLDER, old)
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)
    foreign = replace(changing, labels={**changing.labels, KEY: "b"}, owned=changing.owned - {KEY})
    plan = step(foreign, HOLDER, old)
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)


@pytest.mark.parametrize("phase", [ChangePhase.LABELLED, ChangePhase.RESTARTING])
def test_no_plugin_is_replaced_whose_successor_would_find_nothing(phase: ChangePhase) -> None:
    old = a_plugin_pod("old", daemonset=PLUGIN)
    plan = step(under_change(phase), old, ctx=context(key="b"))
    assert (plan.reason, plan.action) == (Reason.CONFIG_MISSING, None)
    plan = step(under_change(phase), old, ctx=context(EDITED))
    assert isinstance(plan.action, ApplyNode)
    written = Change.model_validate_json(plan.action.annotations["gpushare.io/change"])
    assert written.to == parse_config("a", EDITED)


def test_who_loaded_former_content_meanwhile_is_replaced_too() -> None:
    old = a_plugin_pod("old", daemonset=PLUGIN)
    plan = step(under_change(ChangePhase.RESTARTING), old, ctx=context(EDITED))
    assert isinstance(plan.action, ApplyNode)
    written = Change.model_validate_json(plan.action.annotations["gpushare.io/change"])
    # Who was replaced already is not recorded, nor who has come with the label, as the MPS daemon.
    assert (written.phase, written.plugins) == (ChangePhase.LABELLED, ())


def test_a_node_leaves_the_edition_without_pods() -> None:
    plan = step(member(), HOLDER, pool=a_pool(schedule="default"))
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)


@pytest.mark.parametrize(("seconds", "is_restarted"), [(59, False), (60, True)])
def test_a_plugin_that_offers_nothing_has_its_time_from_when_the_mps_daemon_is_ready(
    seconds: int, is_restarted: bool
) -> None:
    mps = SLICES.replace("timeSlicing", "mps")
    labelled_at = NOW - timedelta(minutes=6)
    found = under_change(ChangePhase.RESTARTING, to=parse_config("a", mps), labelled_at=labelled_at)
    changing = replace(found, allocatable={GPU: 0}, owns_cordon=True)
    since = NOW - timedelta(seconds=seconds)
    daemon = a_plugin_pod("m", daemonset=MPS_DAEMON, ready_since=since)
    others = [replace(pod, ready_since=NOW - timedelta(minutes=5)) for pod in PODS]
    seen = NodeSnapshot(changing, (*others, daemon), parse_records(changing))
    plan = plan_node(seen, build_pool(), context(mps))
    assert (plan.reason is Reason.PLUGIN_RESTARTING) is is_restarted
