"""Every metric moves with what it tells of, done by the code that does it in a cluster."""

import math
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from gpushare.api.k8s.pod_owner import Workload
from gpushare.controller.manager import _be_active
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.drift_record import Drift, DriftRevert, LabelConflict
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import Action, DeletePlugins, NamedPod, build_apply
from gpushare.names import LABEL_PLACEMENT, LABEL_POOL, Reason
from gpushare.observe.metrics import cards
from gpushare.observe.metrics.applications import ApplicationFigures
from gpushare.observe.metrics.controller import ControllerMetrics
from gpushare.observe.metrics.pools import PoolCollector
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.metrics import a_member, list_families
from tests.kit.values.node_plans import CGPU, OURS, SHARE, applied, under_way
from tests.kit.values.objects import NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool
from tests.unit.controller.reconcile_loop import (
    LoopApi,
    build_reconciler,
    carry_out,
    have_pools_listed,
    pass_and_settle,
)

Deed = Callable[[ControllerMetrics, pytest.MonkeyPatch], Awaitable[None]]


async def lead(metrics: ControllerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(*_: object) -> None:
        return None

    informers = SimpleNamespace(
        run=at_once, wait_synced=at_once, relist=at_once, find_unsynced=lambda limit: "deaf"
    )
    # What ends it.
    reconciler: Any = SimpleNamespace(informers=informers, run=at_once)
    lease: Any = SimpleNamespace(acquire=at_once, keep=at_once)
    with pytest.raises(ExceptionGroup):
        await _be_active(lease, reconciler, metrics, 1.0)


async def reconcile(metrics: ControllerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes, one of which is left alone; a pod that runs, and one that finds no place."""
    have_pools_listed(monkeypatch)
    monkeypatch.setattr("gpushare.controller.status_writer.PERIOD_SECONDS", 0.0)
    stuck = a_node("gpu-2", {**SHARE, "cgpu": "true"})
    member = a_member(cards=1)
    selects = frozenset({(LABEL_POOL, "nowhere")})
    pods = (
        a_gpu_pod(cards={0: 4}, workload=Workload("Deployment", "web")),
        a_gpu_pod("lost", node="", selects=selects, phase="Pending", unschedulable="none"),
        a_plugin_pod(),
    )
    elsewhere = {"selector": {"match_labels": {"group": "none"}}}
    night = {"schedule": "0 0 29 2 *", "duration": "1h"}
    always = {"schedule": "* * * * *", "duration": "1m"}
    pools = [
        a_pool(schedule="share"),
        a_pool("nightly", nodes=elsewhere, rollout={"windows": [night]}),
        a_pool("open", nodes=elsewhere, rollout={"windows": [always]}),
    ]
    reconciler = build_reconciler(LoopApi(), pools, member, stuck, pods=pods, metrics=metrics)
    await pass_and_settle(reconciler)
    await reconciler._events.close()


async def apply(metrics: ControllerMetrics, action: Action, before: NodeRecords) -> None:
    node = a_node(labels={**CGPU, **OURS}, records=before)
    await carry_out(LoopApi(), action, reason=Reason.UPDATING, metrics=metrics, nodes=[node])


async def write(metrics: ControllerMetrics, before: NodeRecords, after: NodeRecords) -> None:
    node = a_node(labels={**CGPU, **OURS}, records=before)
    action = build_apply(node, {**CGPU, **OURS}, after, cordon=False, message="written")
    await apply(metrics, action, before)


async def complete(metrics: ControllerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(metrics, under_way(ChangePhase.RESTARTING), applied())


async def reverted(metrics: ControllerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    repair = DriftRevert(key=LABEL_PLACEMENT, manager="kubectl", theirs="spread", at=NOW)
    drift = Drift(reverts=(repair,))
    await write(metrics, applied(), applied().model_copy(update={"drift": drift}))


async def leave_to_manager(metrics: ControllerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    conflict = LabelConflict(key=LABEL_PLACEMENT, manager="kubectl", ours="binpack", since=NOW)
    drift = Drift(conflicts=(conflict,))
    await write(metrics, applied(), applied().model_copy(update={"drift": drift}))


async def restart(metrics: ControllerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    async def delete(api: Any, plugin: NamedPod) -> dict[str, Any]:
        return {}

    monkeypatch.setattr("gpushare.controller.executor.delete_plugin", delete)
    action = DeletePlugins("gpu-1", (NamedPod("kube-system", "plugin", "plugin-1"),))
    await apply(metrics, action, under_way(ChangePhase.RESTARTING))


async def request(metrics: ControllerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeApi().connected(metrics.observe_api_request) as api:
        assert await api.find("api/v1/nodes/gpu-1") is None


async def exist(metrics: ControllerMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    return None


OF_THE_CLUSTER = (*PoolCollector.families, *ApplicationFigures.families, *cards.FAMILIES)
ELSEWHERE = {
    # test_sight_metrics.py, where each has its story.
    *("pool_conflicting_nodes", "pool_competing_nodes", "pool_memory_stranded_bytes"),
    *("pool_contested", "pool_recommended_moves"),
    *("pool_containers", "pool_stale_containers", "pool_opted_out_containers"),
    # unit/controller: test_evictions.py, test_caches.py.
    *("evictions_total", "watch_last_event_timestamp_seconds"),
    # integration/pools: test_elastic.py.
    "node_moves_total",
    # unit/controller: test_admission_table_keeper.py.
    *("admission_table_verified_timestamp_seconds", "admission_table_omitted_pools"),
    # unit/webhook: test_webhook_server.py, test_webhook_certificate*.py.
    *("admission_requests_total", "admission_duration_seconds"),
    "workload_admission_requests_total",
    *("certificate_expiry_timestamp_seconds", "certificate_refused"),
}
MOVES: Mapping[str, Deed] = {
    "leader": lead,
    "reconcile_total": reconcile,
    "reconcile_duration_seconds": reconcile,
    "node_applies_total": complete,
    "changes_total": complete,
    "change_duration_seconds": complete,
    "plugin_restarts_total": restart,
    "label_flips_total": reverted,
    "label_conflicts_total": leave_to_manager,
    "node_waits_total": reconcile,
    "unschedulable_pods": reconcile,
    "api_requests_total": request,
    "build_info": exist,
    **{family.name: reconcile for family in OF_THE_CLUSTER if family.name not in ELSEWHERE},
}


def test_a_process_without_a_certificate_reports_no_expiry() -> None:
    name = "gpushare_certificate_expiry_timestamp_seconds"
    assert math.isnan(ControllerMetrics().registry.get_sample_value(name) or 0.0)


def test_no_metric_is_forgotten_here() -> None:
    families = {family.name for family in ControllerMetrics(per_node=True).families}
    assert MOVES.keys() | ELSEWHERE == families


def find_values(metrics: ControllerMetrics, name: str) -> set[float]:
    """The values of all its series that are not 0; a histogram's is how often it was observed."""
    series = {f"gpushare_{name}", f"gpushare_{name}_count"}
    return {
        sample.value
        for family in list_families(metrics)
        for sample in family.samples
        if sample.name in series and sample.value > 0
    }


@pytest.mark.parametrize("name", MOVES)
async def test_it_moves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = ControllerMetrics(per_node=True)
    deed = MOVES[name]
    # What is there from the start says that the process runs.
    assert bool(find_values(metrics, name)) is (deed is exist)
    await deed(metrics, monkeypatch)
    assert find_values(metrics, name)
