"""How much is under way at once, however many nodes need something."""

import asyncio
from dataclasses import replace

import pytest

from gpushare.controller.reconciler import Reconciler
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import (
    EvictPods,
    NamedPod,
    NodeState,
    RecordPlugins,
)
from gpushare.kube.resources.nodes import PATH as NODES
from gpushare.names import Reason
from tests.kit.values.node_plans import CGPU, OURS, a_node_plan, under_way
from tests.kit.values.objects import a_node, a_pool
from tests.unit.controller.reconcile_loop import (
    SETTINGS,
    SlowApi,
    build_cordoned,
    build_reconciler,
    list_pools_anew,
    pass_and_settle,
    put_node,
    start_work,
    until_quiet,
)

LIMIT = 4
"""So many nodes are written to at once."""
FEW = SETTINGS.model_copy(update={"recheck_seconds": 0, "write_concurrency": LIMIT})


def build(api: SlowApi, count: int) -> Reconciler:
    """The loop, with so many cordoned nodes, and one that has to be written to."""
    records = under_way(ChangePhase.CORDONED)
    nodes = []
    for index in range(count):
        name = f"gpu-{index:03}"
        api.objects[f"{NODES}/{name}"] = build_cordoned(name, {**CGPU, **OURS})
        nodes.append(a_node(name, {**CGPU, **OURS}, records=records, unschedulable=True))
    return build_reconciler(api, [a_pool()], *nodes, a_node("new", CGPU), settings=FEW)


async def finish(reconciler: Reconciler, api: SlowApi, *tasks: asyncio.Task[None]) -> None:
    api.go_on.set()
    await asyncio.gather(*tasks or reconciler._busy.values())
    await reconciler._events.close()


@pytest.mark.parametrize("slow", ["read", "write"])
async def test_many_second_looks_read_and_write_few_nodes_at_once_and_block_no_other(
    slow: str,
) -> None:
    api = SlowApi(slow)
    reconciler = build(api, 3 * LIMIT)
    await reconciler._pass_safely()
    await until_quiet(api)
    assert api.in_flight[slow] == LIMIT
    assert (("APPLY", f"{NODES}/new") in api.writes) is (slow == "read")
    await finish(reconciler, api)
    assert len(api.written(NODES)) == 3 * LIMIT + 1


async def test_many_evictions_are_asked_for_a_few_at_once_and_hold_up_no_look_and_no_write() -> (
    None
):
    api = SlowApi("eviction")
    reconciler = build(api, 1)
    evictions = [asyncio.create_task(evict(reconciler, f"old-{i}")) for i in range(3 * LIMIT)]
    await until_quiet(api)
    assert api.in_flight["eviction"] == LIMIT
    await reconciler._pass_safely()
    await until_quiet(api)
    assert {path for _, path in api.writes} >= {f"{NODES}/gpu-000", f"{NODES}/new"}
    await finish(reconciler, api, *evictions)


async def test_nodes_that_are_read_before_their_plugins_are_recorded_hold_up_no_write() -> None:
    api = SlowApi("read")
    reconciler = build(api, 0)
    records = [asyncio.create_task(record(reconciler, api, f"old-{i}")) for i in range(3 * LIMIT)]
    await until_quiet(api)
    assert api.in_flight["read"] == LIMIT
    await reconciler._pass_safely()
    await until_quiet(api)
    assert ("APPLY", f"{NODES}/new") in api.writes
    await finish(reconciler, api, *records)


async def record(reconciler: Reconciler, api: SlowApi, node: str) -> None:
    api.objects[f"{NODES}/{node}"] = build_cordoned(node, {**CGPU, **OURS})
    action = RecordPlugins(node)
    plan = a_node_plan(node, NodeState.UPDATING, Reason.UPDATING, "recording", action)
    await start_work(reconciler, plan)


async def evict(reconciler: Reconciler, node: str) -> None:
    action = EvictPods(node, (NamedPod("ml", f"on-{node}", f"uid-on-{node}"),))
    plan = a_node_plan(node, NodeState.BLOCKED, Reason.WORKLOADS_PRESENT, "evicting", action)
    await start_work(reconciler, plan)


def build_new(api: SlowApi, count: int) -> Reconciler:
    """The loop, with so many nodes of a new pool."""
    nodes = [a_node(f"gpu-{index:04}", CGPU) for index in range(count)]
    return build_reconciler(api, [a_pool()], *nodes, settings=FEW)


async def test_of_thousands_of_nodes_few_have_a_task_and_all_are_written_to_once() -> None:
    """A task for each would take as much memory as the nodes."""
    api = SlowApi("write")
    count = 3 * LIMIT
    reconciler = build_new(api, count)
    await reconciler._pass_safely()
    await until_quiet(api)
    assert (len(reconciler._busy), api.in_flight["write"]) == (LIMIT, LIMIT)
    await reconciler._pass_safely()
    assert len(reconciler._busy) == LIMIT
    api.go_on.set()
    for _ in range(3):
        await pass_and_settle(reconciler)
    await finish(reconciler, api)
    assert sorted(path for _, path in api.writes if NODES in path) == [
        f"{NODES}/gpu-{index:04}" for index in range(count)
    ]


@pytest.mark.parametrize("why", ["refused", "unchanged"])
async def test_nodes_that_rest_hold_up_no_other(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api = SlowApi()
    monkeypatch.setattr("gpushare.controller.executor.NO_CHANGE_SECONDS", 600.0)
    monkeypatch.setattr("gpushare.controller.reconciler.find_delay", lambda *of: 600.0)
    nodes = [a_node(f"rests-{i}", CGPU, resource_version="9") for i in range(3 * LIMIT)]
    reconciler = build_reconciler(api, [a_pool()], *nodes, a_node("works", CGPU), settings=FEW)
    if why == "refused":
        api.refusal, api.refused = 403, "/rests-"
    for _ in range(4):
        await reconciler._pass_safely()
        await until_quiet(api)
    assert ("APPLY", f"{NODES}/works") in api.writes
    assert len(api.written(NODES)) == 3 * LIMIT + 1
    assert set(reconciler._busy) >= {node.name for node in nodes}
    for task in reconciler._busy.values():
        task.cancel()
    await reconciler._events.close()


async def test_a_node_that_waits_is_written_to_as_it_is_by_its_turn() -> None:
    api = SlowApi("write")
    reconciler = build_new(api, LIMIT + 2)
    await reconciler._pass_safely()
    await until_quiet(api)
    changed, gone = f"gpu-{LIMIT:04}", f"gpu-{LIMIT + 1:04}"
    put_node(reconciler, replace(a_node(changed, CGPU), resource_version="7"))
    del reconciler.informers.nodes._records[gone]
    reconciler.informers.mark_changed(gone)
    await reconciler._pass_safely()
    api.go_on.set()
    for _ in range(3):
        await pass_and_settle(reconciler)
    await finish(reconciler, api)
    written = {path: body["metadata"] for path, body in api.bodies}
    assert written[f"{NODES}/{changed}"]["resourceVersion"] == "7"
    assert f"{NODES}/{gone}" not in written


async def test_a_node_that_waits_is_not_written_to_for_a_pool_that_is_gone_by_its_turn() -> None:
    api = SlowApi("write")
    reconciler = build_new(api, LIMIT + 2)
    await reconciler._pass_safely()
    await until_quiet(api)
    api.pools.clear()
    list_pools_anew(reconciler)
    await reconciler._pass_safely()
    api.go_on.set()
    for _ in range(3):
        await pass_and_settle(reconciler)
    await finish(reconciler, api)
    assert not {f"{NODES}/gpu-{LIMIT + i:04}" for i in range(2)} & {path for _, path in api.writes}


async def test_a_change_that_is_under_way_does_not_wait_for_nodes_to_be_labelled() -> None:
    api = SlowApi("write")
    reconciler = build_new(api, 10 * LIMIT)
    await reconciler._pass_safely()
    away = a_node("away", {**CGPU, **OURS}, records=under_way(ChangePhase.CORDONED))
    put_node(reconciler, away)
    await reconciler._pass_safely()
    assert "away" in reconciler._busy
    assert len(reconciler._busy) == LIMIT + 1
    await finish(reconciler, api)
