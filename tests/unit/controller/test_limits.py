"""How much is under way at once, however many nodes need something."""

import asyncio

import pytest

from gpushare.controller.reconciler import Reconciler
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import (
    EvictedPod,
    EvictPods,
    NodeState,
    RecordPlugins,
    StepResult,
)
from gpushare.kube.resources.nodes import PATH as NODES
from gpushare.names import Reason
from gpushare.settings import Settings
from tests.kit.values.node_plans import CGPU, OURS, under_way
from tests.kit.values.objects import a_node, a_pool
from tests.unit.controller.reconcile_loop import (
    SlowApi,
    build_cordoned,
    build_reconciler,
    start_work,
    until_quiet,
)

LIMIT = Settings(namespace="ns").write_concurrency


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSHARE_RECHECK_SECONDS", "0")


def build(api: SlowApi, count: int) -> Reconciler:
    """The loop, with so many cordoned nodes, and one that has to be written to."""
    records = under_way(ChangePhase.CORDONED)
    nodes = []
    for index in range(count):
        name = f"gpu-{index:03}"
        api.objects[f"{NODES}/{name}"] = build_cordoned(name, {**CGPU, **OURS})
        nodes.append(a_node(name, {**CGPU, **OURS}, records=records, unschedulable=True))
    return build_reconciler(api, [a_pool()], *nodes, a_node("new", CGPU))


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
    plan = StepResult(node, NodeState.UPDATING, Reason.UPDATING, "recording", action)
    await start_work(reconciler, plan)


async def evict(reconciler: Reconciler, node: str) -> None:
    action = EvictPods(node, (EvictedPod("ml", f"on-{node}", f"uid-on-{node}"),))
    plan = StepResult(node, NodeState.BLOCKED, Reason.WORKLOADS_PRESENT, "evicting", action)
    await start_work(reconciler, plan)
