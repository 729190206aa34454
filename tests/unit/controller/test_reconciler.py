"""The loop: when it comes back, and what it holds back."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod_owner import Workload
from gpushare.api.pool import Pool, Schedule
from gpushare.api.status import PoolStatus, Releasing
from gpushare.controller.backoff import LONGEST_RETRY_SECONDS, RETRY_SECONDS, find_delay
from gpushare.core.planner.decisions import NodeDecision
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import (
    DeletePlugins,
    NamedPod,
    NodeState,
    ReleaseNode,
)
from gpushare.kube.errors import ApiError
from gpushare.kube.resources import pools as pools_api
from gpushare.kube.resources.nodes import PATH as NODES
from gpushare.kube.resources.pools import PoolList
from gpushare.names import Reason
from gpushare.observe.metrics.controller import ControllerMetrics
from tests.kit.values.metrics import a_member, read
from tests.kit.values.node_plans import (
    CGPU,
    OURS,
    SHARE,
    a_node_plan,
    a_settled,
    applied,
    under_way,
)
from tests.kit.values.objects import MEMORY, a_gpu_pod, a_node, a_plugin_pod, a_pool
from tests.unit.controller.reconcile_loop import (
    SETTINGS,
    Json,
    LoopApi,
    SlowApi,
    build_cordoned,
    build_reconciler,
    carry_out,
    pass_and_settle,
    put_node,
    settle,
    until_quiet,
)


async def test_it_comes_back_at_the_resync_even_while_a_node_may_take_longer() -> None:
    node = a_node(
        labels={**CGPU, **OURS}, records=under_way(ChangePhase.RESTARTING), unschedulable=True
    )
    reconciler = build_reconciler(LoopApi(), [a_pool()], node)
    assert await reconciler._pass_safely() == 30
    assert reconciler.find_standstill() is None


async def test_pools_are_let_go_of_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, a slow API server would have the loop look as if it hung."""
    pools = [a_pool(name=f"pool-{number}", deleting=True) for number in range(20)]
    together, released = asyncio.Barrier(len(pools)), []

    async def drop_finalizer(api: object, pool: Pool) -> None:
        await together.wait()
        released.append(pool.name)

    monkeypatch.setattr(pools_api, "drop_finalizer", drop_finalizer)
    await build_reconciler(LoopApi(), pools)._pass_safely()
    assert sorted(released) == sorted(pool.name for pool in pools)


async def test_nothing_is_written_for_a_pool_before_our_finalizer_is_on_it() -> None:
    api = LoopApi(refusal=500, refused=f"{pools_api.PATH}/training")
    pool = a_pool(finalizers=frozenset())
    reconciler = build_reconciler(api, [pool], a_node(labels=CGPU))
    await pass_and_settle(reconciler)
    assert api.written("/nodes/") == []
    api.refusal = None
    await pass_and_settle(reconciler)
    assert api.written("/nodes/") == ["APPLY"]
    assert api.writes[0] == ("APPLY", f"{pools_api.PATH}/training")


@pytest.mark.parametrize("busy_for", ["training", "other"])
async def test_a_pool_is_released_once_nothing_is_done_to_its_own_nodes(busy_for: str) -> None:
    api, pool = LoopApi(), a_pool(deleting=True)
    metadata = {"uid": pool.uid, "finalizers": [names.FINALIZER]}
    api.objects[f"{pools_api.PATH}/training"] = {"metadata": metadata}
    reconciler = build_reconciler(api, [pool])
    reconciler._busy["gpu-1"] = asyncio.create_task(asyncio.Event().wait())  # type: ignore[arg-type]
    reconciler._busy_for["gpu-1"] = busy_for
    await reconciler._pass_safely()
    released = [("PATCH", f"{pools_api.PATH}/training")]
    assert api.writes == (released if busy_for == "other" else [])
    reconciler._busy["gpu-1"].cancel()


async def test_a_pool_is_not_released_while_a_write_for_it_waits_for_others() -> None:
    api, pool = LoopApi(), a_pool(deleting=True)
    reconciler = build_reconciler(api, [pool])
    plan = a_node_plan("gpu-1", NodeState.UPDATING, Reason.RELEASING, "")
    reconciler._waiting["gpu-1"] = NodeDecision("training", plan)
    await reconciler._pass_safely()
    assert api.writes == []
    reconciler._busy["gpu-1"].cancel()


async def test_the_finalizer_is_the_last_write_for_a_pool_that_leaves_nodes_behind() -> None:
    api, since = LoopApi(), datetime.now(UTC) - timedelta(hours=1)
    stalled = PoolStatus(releasing=Releasing(nodes=1, since=since))
    pool = a_pool(deleting=True).model_copy(update={"status": stalled})
    metadata = {"uid": pool.uid, "finalizers": ["somebody-elses", names.FINALIZER]}
    api.objects[f"{pools_api.PATH}/training"] = {"metadata": metadata}
    stays = {**CGPU, **OURS}
    api.objects[f"{NODES}/gpu-1"] = build_cordoned("gpu-1", stays, unschedulable=False)
    node = a_node(labels=stays, records=applied())
    reconciler = build_reconciler(api, [pool], node)
    await pass_and_settle(reconciler)
    assert api.writes == [("PATCH", f"{pools_api.PATH}/training")]


async def test_a_node_is_written_to_once_at_a_time() -> None:
    api = LoopApi()
    node = a_node(labels={**SHARE, **OURS}, records=applied(Schedule.SHARE))
    reconciler = build_reconciler(api, [a_pool()], node)
    await reconciler._pass_safely()
    await pass_and_settle(reconciler)
    assert api.written("/nodes/") == ["APPLY"]


async def test_a_change_that_begins_takes_its_place_before_the_watch_shows_it() -> None:
    api, begun = SlowApi("write"), a_settled("gpu-2")
    reconciler = build_reconciler(api, [a_pool()], begun)
    await reconciler._pass_safely()
    await until_quiet(api)
    for node in (a_settled("gpu-1"), begun):
        put_node(reconciler, node)
    await reconciler._pass_safely()
    await until_quiet(api)
    assert api.in_flight["write"] == 1
    reconciler._busy["gpu-2"].cancel()


async def test_a_joining_node_counts_as_admitted_for_as_long_as_its_cordon_is_written() -> None:
    api = SlowApi("write")
    reconciler = build_reconciler(api, [a_pool()], a_node())
    await reconciler._pass_safely()
    await until_quiet(api)
    assert reconciler._starting == {"gpu-1": False}
    write = reconciler._busy["gpu-1"]
    write.cancel()
    await asyncio.wait([write])
    assert not reconciler._starting


async def test_after_a_conflict_the_node_is_known_as_it_is_now() -> None:
    api = LoopApi(refusal=409)
    api.objects[f"{NODES}/gpu-1"] = build_cordoned("gpu-1", CGPU)
    reconciler = build_reconciler(api, [a_pool()], a_node(labels=CGPU))
    await pass_and_settle(reconciler)
    assert reconciler.informers.nodes.records["gpu-1"].unschedulable


@pytest.mark.parametrize("code", [404, 409])
async def test_a_plugins_pod_that_is_gone_keeps_no_other_from_its_restart(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    deleted: list[str] = []

    async def delete(api: object, plugin: NamedPod) -> Json:
        if plugin.name == "gone":
            raise ApiError(code, b"{}", what="delete")
        deleted.append(plugin.name)
        return {}

    monkeypatch.setattr("gpushare.controller.executor.delete_plugin", delete)
    plugins = tuple(NamedPod("kube-system", name, name) for name in ("gone", "there"))
    restart = DeletePlugins("gpu-1", plugins)
    await carry_out(LoopApi(), restart, reason=Reason.PLUGIN_RESTARTING)
    assert deleted == ["there"]


async def test_a_refused_write_shows_in_the_status() -> None:
    api = LoopApi(refusal=403)
    reconciler = build_reconciler(api, [a_pool()], a_node(labels=CGPU))
    await pass_and_settle(reconciler)
    await pass_and_settle(reconciler)
    (pool,) = reconciler.pools.all
    assert [(s.node, s.reason) for s in pool.status.samples] == [("gpu-1", "WriteRefused")]


async def test_a_pool_that_may_not_be_written_does_not_stop_the_others() -> None:
    api = LoopApi(refusal=403, refused="/other")
    elsewhere = a_pool("other", finalizers=frozenset(), nodes={"names": ("gpu-2",)})
    pools = [elsewhere, a_pool()]
    reconciler = build_reconciler(api, pools, a_node(labels=CGPU))
    assert await reconciler._pass_safely() == RETRY_SECONDS
    await settle(reconciler)
    assert api.written("/nodes/") == ["APPLY"]
    assert api.written("/training/status") == ["APPLY"]


async def test_a_pass_that_fails_is_timed_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = ControllerMetrics()
    reconciler = build_reconciler(LoopApi(), [a_pool()], metrics=metrics)

    async def refuse(api: object) -> PoolList:
        raise ApiError(503, b"{}", what="list pools")

    monkeypatch.setattr(pools_api, "list_pools", refuse)
    await reconciler._pass_safely()
    read = metrics.registry.get_sample_value
    assert read("gpushare_reconcile_total", {"result": "error"}) == 1
    assert read("gpushare_reconcile_duration_seconds_count") == 1


async def test_metrics_show_the_cluster_only_while_it_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics = ControllerMetrics()
    member = a_member(cards=1)
    pod = a_gpu_pod(cards={0: 4}, workload=Workload("Deployment", "web"))
    pool = a_pool(schedule="share")
    reconciler = build_reconciler(LoopApi(), [pool], member, pods=[pod], metrics=metrics)
    # Standing by, it knows nodes and pods as well as the one that is active.
    assert not metrics.look().pools
    decided = asyncio.Event()
    monkeypatch.setattr(reconciler, "_start", lambda plan: decided.set())
    running = asyncio.create_task(reconciler.run())
    await decided.wait()
    assert metrics.look().pools
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not metrics.look().pools


async def test_a_pod_that_has_a_place_again_is_unplaced_no_more_before_the_next_look() -> None:
    metrics = ControllerMetrics()
    selects = frozenset({(names.LABEL_POOL, "nowhere")})
    lost = a_gpu_pod("p", node="", selects=selects, phase="Pending", unschedulable="none")
    reconciler = build_reconciler(LoopApi(), [a_pool()], pods=[lost], metrics=metrics)
    reconciler._has_decided = True
    await reconciler._pass_safely()
    count = "unschedulable_pods"
    assert read(metrics, count, pool="", reason="PoolNotFound") == 1
    reconciler.informers._on_pod("default/p", lost, replace(lost, node="gpu-1", unschedulable=""))
    assert read(metrics, count, pool="", reason="PoolNotFound") == 0
    await reconciler._events.close()


def _unseen() -> Node:
    """In share; while nobody looked its label went and came back."""
    key = names.LABEL_SCHEDULE
    records = applied(Schedule.SHARE).model_copy(update={"initial_values": {key: None}})
    ours = a_node(labels={**SHARE, **OURS}, records=records, allocatable={MEMORY: 15})
    moments = {key: datetime.now(UTC) - timedelta(hours=1)}
    return replace(ours, owned=ours.owned - {key}, managers={key: "other"}, written_at=moments)


async def test_a_doubt_goes_with_its_node_and_is_not_another_nodes_of_that_name() -> None:
    api = LoopApi(refusal=500)
    pool = a_pool(schedule="share")
    reconciler = build_reconciler(api, [pool], _unseen(), pods=[a_plugin_pod()])
    await reconciler._pass_safely()
    # The watch tells that the node is gone only once the write has ended.
    await settle(reconciler)
    reconciler.informers.nodes._records = {}
    reconciler.informers.mark_changed("gpu-1")
    await reconciler._pass_safely()
    assert not reconciler._mode_unsaved


async def test_a_doubt_that_could_not_be_stored_outlives_the_label_that_brought_it() -> None:
    """It changed again before our write."""
    api, key, foreign = LoopApi(refusal=500), names.LABEL_SCHEDULE, _unseen()
    pool = a_pool(schedule="share")
    reconciler = build_reconciler(api, [pool], foreign, pods=[a_plugin_pod()])
    await pass_and_settle(reconciler)
    assert api.written("/nodes/") == ["APPLY"]
    assert api.bodies == [] or "/nodes/" not in api.bodies[-1][0]

    labels = {**foreign.labels, key: "default"}
    now = datetime.now(UTC)
    changed = replace(foreign, labels=labels, written_at={key: now}, resource_version="2")
    put_node(reconciler, changed)
    api.refusal = None
    await pass_and_settle(reconciler)
    annotations = next(
        body["metadata"]["annotations"] for path, body in api.bodies if "/nodes/" in path
    )
    assert names.ANNOTATION_MODULE in annotations
    assert json.loads(annotations[names.ANNOTATION_APPLIED])["modeUnknown"] is True


async def test_a_doubt_is_kept_also_while_its_node_waits_to_be_written_to() -> None:
    settings = SETTINGS.model_copy(update={"write_concurrency": 1})
    first = [a_node("first", SHARE)]
    doubted = replace(_unseen(), name="second")
    pods = [replace(a_plugin_pod(), node="second")]
    pools = [a_pool(schedule="share")]
    reconciler = build_reconciler(LoopApi(), pools, *first, doubted, pods=pods, settings=settings)
    await reconciler._pass_safely()
    assert reconciler._busy.keys() == {node.name for node in first}
    assert reconciler._mode_unsaved == {"second"}
    await settle(reconciler)


@pytest.mark.parametrize("note", ["The last change of the node failed", ""])
async def test_a_node_that_is_left_cordoned_is_told_of_in_an_event(note: str) -> None:
    """Nothing on it will say so any more."""
    api, path = LoopApi(), f"{NODES}/gpu-1"
    api.objects[path] = {"metadata": {"name": "gpu-1", "uid": "uid-1", "resourceVersion": "1"}}
    await carry_out(api, ReleaseNode("gpu-1", "uid-1", note=note), reason=Reason.RELEASING)
    told = [(event["regarding"]["name"], event["note"]) for event in api.created]
    assert [name for name, _ in told] == (["gpu-1"] if note else [])
    assert all(note in text for _, text in told)


@pytest.mark.parametrize(
    ("refusals", "seconds"), [(0, 1), (1, 2), (2, 4), (100, LONGEST_RETRY_SECONDS)]
)
def test_a_write_that_failed_is_left_alone_for_longer_after_each_refusal(
    refusals: int, seconds: float
) -> None:
    assert find_delay(ApiError(403, b"{}", what="write"), refusals) == seconds


def test_a_write_that_failed_is_left_alone_for_as_long_as_the_api_server_asks_for() -> None:
    asked = ApiError(429, b"{}", what="write", retry_after=7)
    assert (find_delay(asked), find_delay(asked, 10)) == (7, LONGEST_RETRY_SECONDS)
