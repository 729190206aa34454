"""What will be done to nodes, in which order, and how long it takes: told before it is done."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.finding import FindingCode
from gpushare.analysis.forecast.duration import DurationForecast
from gpushare.analysis.forecast.pools import PoolForecast, forecast_pools
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.rollout.change_kinds import hash_kinds
from gpushare.settings import Settings
from tests.kit.values.node_plans import (
    a_kind,
    a_settled,
    applied,
    changing,
    has_failed,
    some_settled,
)
from tests.kit.values.objects import NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool, a_snapshot
from tests.kit.values.teardown_plans import manual_pool, teardown_node

SETUP = Settings(allow_eviction=True)
SHARED = "ack.node.gpu.schedule"


def forecast(pool: Pool, nodes: Iterable[Node], *pods: Pod, **more: Any) -> PoolForecast:
    nodes = tuple(nodes)
    elsewhere = tuple(
        a_plugin_pod(name, node="elsewhere", daemonset=name, created=NOW - took)
        for name, took in STARTED.items()
    )
    snapshot = a_snapshot(pools=(pool,), nodes=nodes, pods=(*elsewhere, *pods))
    (found,) = forecast_pools(snapshot, {pool.name}, more.get("by", SETUP), NOW)
    return found


STARTED = {
    "gpushare-device-plugin-ds": timedelta(seconds=5),
    "cgpu-installer": timedelta(seconds=20),
}
"""How long these took from creation to Ready."""


def waves_of(found: PoolForecast) -> dict[str, int | None]:
    return {step.node: step.wave for step in found.steps}


def test_a_limit_of_the_mode_is_told_of_nodes_that_are_to_enter_it_and_of_no_other() -> None:
    nodes = [a_node(name, provider_id="") for name in ("gpu-1", "gpu-2")]
    found = forecast(a_pool(), nodes)
    assert [(limit.code, limit.object) for limit in found.limits] == [
        (FindingCode.NOT_ECS, "node gpu-1"),
        (FindingCode.NOT_ECS, "node gpu-2"),
    ]
    assert forecast(a_pool(schedule="share"), nodes).limits == ()
    assert forecast(a_pool(), [a_node()]).limits == ()


def test_canaries_come_first_and_then_as_many_as_the_budget_allows() -> None:
    pool = a_pool(rollout={"canary": 1, "max_unavailable": 2})
    found = forecast(pool, some_settled(4))
    assert waves_of(found) == {"gpu-1": 1, "gpu-2": 2, "gpu-3": 2, "gpu-4": 3}


def test_each_wave_of_a_large_pool_is_as_large_as_the_budget() -> None:
    found = forecast(a_pool(rollout={"max_unavailable": 2}), some_settled(90, first=10))
    waves = list(waves_of(found).values())
    assert waves == [1 + place // 2 for place in range(90)]


def test_a_node_that_a_user_cordoned_needs_no_budget_and_uses_it_up_for_others() -> None:
    cordoned = replace(a_settled("gpu-9"), unschedulable=True)
    pool = a_pool(rollout={"max_unavailable": 2})
    found = forecast(pool, [*some_settled(2), cordoned])
    assert waves_of(found) == {"gpu-1": 1, "gpu-9": 1, "gpu-2": 2}


def test_the_first_wave_begins_beside_the_nodes_whose_change_is_under_way() -> None:
    pool = a_pool(rollout={"max_unavailable": 2})
    found = forecast(pool, [changing(owns_cordon=True), *some_settled(3)])
    assert waves_of(found) == {"gpu-0": 0, "gpu-1": 1, "gpu-2": 2, "gpu-3": 2}


def test_as_many_nodes_join_in_a_wave_as_the_installation_allows() -> None:
    nodes = [a_node(f"new-{number}") for number in range(6)]
    found = forecast(a_pool(), nodes, by=Settings(max_joins=4))
    assert list(waves_of(found).values()) == [1, 1, 1, 1, 2, 2]


def test_a_wave_is_exact_where_every_other_node_has_one() -> None:
    found = forecast(a_pool(), some_settled(3))
    assert [step.is_about for step in found.steps] == [False] * 3


def test_behind_a_blocked_node_waves_are_only_about_right() -> None:
    found = forecast(a_pool(), some_settled(3), a_gpu_pod(node="gpu-2"))
    assert [(step.node, step.wave, step.is_about) for step in found.steps] == [
        ("gpu-1", 1, False),
        ("gpu-3", 2, True),
        ("gpu-2", None, False),
    ]
    assert _estimate(found).basis.startswith("about 2 waves in sequence, without 1 node")


def test_where_a_change_failed_nobody_has_a_wave() -> None:
    found = forecast(a_pool(), [has_failed(), a_settled("gpu-1")])
    assert waves_of(found) == {"gpu-0": None, "gpu-1": None}
    assert [step.blocker for step in found.steps] == ["DeadlineExceeded", "RolloutHalted"]
    assert found.duration is None


def test_a_node_that_another_pool_has_is_told_with_its_owner() -> None:
    taker = a_pool("taker", "share", priority=200)
    snapshot = a_snapshot(pools=(a_pool(schedule="share"), taker), nodes=(a_settled("gpu-1"),))
    (taken,) = forecast_pools(snapshot, {"taker"}, SETUP, NOW)
    (step,) = taken.steps
    assert (step.pool, step.owner) == ("taker", "training")
    assert step.labels == {names.LABEL_POOL: "taker"}


def test_a_node_that_leaves_is_told_by_the_pool_that_had_it_with_its_pods() -> None:
    pool = a_pool(nodes={"names": ["gpu-9"]}, deletion_policy="WholeCard", schedule="share")
    (step,) = forecast(pool, [a_settled("gpu-1")]).steps
    assert (step.leaves, step.labels) == (True, {SHARED: "default"})
    assert step.removed == (names.LABEL_POOL,)
    selects = frozenset({(names.LABEL_POOL, pool.name)})
    busy = a_gpu_pod("busy", node="gpu-1", selects=selects)
    (held,) = forecast(pool, [a_settled("gpu-1")], busy).steps
    assert (held.blocker, held.pods) == ("WorkloadsPresent", ("default/busy",))
    for each in (step, held):
        assert each.kind is not None
        assert (each.kind.change, each.cordons) == ("share -> default", True)


@pytest.mark.parametrize("selects", [(), ((names.LABEL_POOL, "training"),)], ids=["none", "pool"])
def test_of_a_node_that_leaves_all_is_told_that_is_done_once_its_pods_are_gone(
    selects: tuple[tuple[str, str], ...],
) -> None:
    rollout = {"workloads": "Wait"}
    spec: dict[str, Any] = {"nodes": {"names": ["gpu-9"]}, "deletion_policy": "WholeCard"}
    pool = a_pool(schedule="share", rollout=rollout, **spec)
    tenant = a_gpu_pod("tenant", node="gpu-1", selects=frozenset(selects))
    found = forecast(pool, [a_settled("gpu-1")], a_gpu_pod("busy", node="gpu-1"), tenant)
    (held,) = found.steps
    assert held.kind is not None
    assert (held.blocker, held.wave) == ("WorkloadsPresent", None)
    assert held.pods == ("default/busy", "default/tenant")
    told = (held.kind.change, held.cordons, held.restarts_plugin)
    assert told == ("share -> default", True, False)


def test_the_way_back_from_a_change_that_failed_is_told_with_its_reboot() -> None:
    (step,) = forecast(a_pool(schedule="share"), [has_failed(phase=ChangePhase.RESTARTING)]).steps
    assert step.kind is not None
    assert (step.kind.change, step.reboots) == ("cgpu -> share", True)


def _estimate(found: PoolForecast) -> DurationForecast:
    assert found.duration is not None
    return found.duration


def test_time_is_reckoned_from_the_slowest_that_was_measured() -> None:
    found = _estimate(forecast(a_pool(), some_settled(3)))
    # 2 s between two looks, 20 s for the slower DaemonSet, 12 s until the resource is believed.
    assert (found.waves, found.expected) == (3, 3 * timedelta(seconds=34))
    assert found.longest == 3 * timedelta(seconds=602)
    assert "20 s until cgpu-installer is Ready" in found.basis


def test_a_pools_own_deadline_counts() -> None:
    pool = a_pool(rollout={"ready_timeout_seconds": 58})
    assert _estimate(forecast(pool, some_settled(1))).longest == timedelta(minutes=1)


@pytest.mark.parametrize(
    "pods",
    [(), tuple(a_plugin_pod(n, node="x", daemonset=n, created=NOW, restarts=1) for n in STARTED)],
    ids=["none runs", "they restarted"],
)
def test_what_nobody_measured_is_not_guessed(pods: tuple[Pod, ...]) -> None:
    snapshot = a_snapshot(pools=(a_pool(),), nodes=tuple(some_settled(1)), pods=pods)
    (forecasted,) = forecast_pools(snapshot, {"training"}, SETUP, NOW)
    found = _estimate(forecasted)
    assert (found.expected, found.longest) == (None, timedelta(seconds=602))
    assert "No pod of gpushare-device-plugin-ds and cgpu-installer runs" in found.basis


def test_where_pods_must_go_first_nobody_knows_the_time() -> None:
    pool = a_pool(rollout={"workloads": "CordonAndWait"})
    found = _estimate(forecast(pool, some_settled(2), a_gpu_pod(node="gpu-1")))
    assert (found.expected, found.longest) == (None, None)
    assert "Pods on 1 node must finish" in found.basis


def test_what_shows_once_the_first_labels_are_written_is_told_with_them() -> None:
    node = a_settled("gpu-1")
    labels = {k: v for k, v in node.labels.items() if k not in names.NODE_LABELS}
    bare = replace(node, labels={**labels, SHARED: "share"}, annotations={}, owned=frozenset())
    module = a_plugin_pod("cgpu-installer-1", node="gpu-1", daemonset="cgpu-installer")
    found = forecast(a_pool(schedule="share"), [bare], a_plugin_pod(node="gpu-1"), module)
    (step,) = found.steps
    assert step.labels == {names.LABEL_POOL: "training"}
    assert step.plan.reason == "RequiresTeardown"


def test_waves_are_told_as_if_the_plan_was_agreed_to() -> None:
    found = forecast(a_pool(rollout={"approval": "Manual"}), some_settled(2))
    assert found.waits_for_approval
    assert waves_of(found) == {"gpu-1": 1, "gpu-2": 2}
    assert {step.blocker for step in found.steps} == {"WaitingForApproval"}
    assert found.plan.hash == hash_kinds([a_kind()])


def test_how_long_a_module_takes_to_go_is_not_known_before_it_is_seen_to_be_gone() -> None:
    found = _estimate(forecast(manual_pool(), [teardown_node(ChangePhase.REBOOTED, boot="boot-2")]))
    assert (found.waves, found.expected, found.longest) == (1, None, None)
    assert "a kernel module" in found.basis


def test_a_manifest_that_carries_the_hash_waits_for_nobody() -> None:
    rollout = {"approval": "Manual", "approved_plan": hash_kinds([a_kind()])}
    found = forecast(a_pool(rollout=rollout), some_settled(2))
    assert not found.waits_for_approval
    assert [step.blocker for step in found.steps] == ["", ""]


def test_waves_are_placed_into_windows_by_what_the_last_changes_took() -> None:
    window = {"schedule": "0 22 * * *", "duration": "50s"}
    took = applied("share", took_seconds=20.0)
    nodes = [a_settled(f"gpu-{number}", records=took) for number in range(1, 4)]
    found = forecast(a_pool(rollout={"windows": [window]}), nodes).calendar
    assert found is not None
    assert [(each.first_wave, each.last_wave, each.nodes) for each in found.windows] == [
        (1, 2, 2),
        (3, 3, 1),
    ]
    assert found.done_at == NOW.replace(day=3, hour=22, minute=0, second=22)
