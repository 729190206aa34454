"""When a pool's status is written: beside the pass, once at a time, and again where that failed."""

import asyncio
from datetime import UTC, datetime

import pytest

from gpushare.api.pool import Pool, UnreadablePool
from gpushare.controller.reconciler import Reconciler
from gpushare.controller.status_writer import StatusWriter
from gpushare.core.rollout.change_kinds import hash_kinds
from gpushare.core.snapshot.actions import NodeState
from gpushare.kube.errors import NotLeaderError
from gpushare.kube.resources import pools as pools_api
from gpushare.kube.resources.nodes import PATH as NODES
from gpushare.names import Reason
from tests.kit.values.contested_pools import build_contested, flip_schedule, write_spec
from tests.kit.values.node_plans import CGPU, OURS, a_kind, a_node_plan, a_settled, applied
from tests.kit.values.objects import NOW, a_node, a_plugin_pod, a_pool
from tests.unit.controller.reconcile_loop import (
    LoopApi,
    SlowApi,
    build_reconciler,
    list_pools_anew,
    pass_and_settle,
    put_node,
    settle,
    until_quiet,
)


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpushare.controller.backoff.RETRY_SECONDS", 0.0)


def matched(api: LoopApi, pool: str) -> list[int]:
    """Of how many nodes each written status of a pool speaks."""
    path = f"{pools_api.PATH}/{pool}/status"
    return [body["status"]["nodes"]["matched"] for at, body in api.bodies if at == path]


async def test_of_one_pool_one_status_is_in_flight_and_the_newest_comes_after_it() -> None:
    api = SlowApi("status")
    other = a_pool("other", nodes={"names": ("none",)})
    reconciler = build_reconciler(api, [a_pool(), other])
    for index in range(4):
        await reconciler._pass_safely()
        await until_quiet(api)
        assert api.in_flight["status"] == 2
        settled = a_node(f"gpu-{index}", {**CGPU, **OURS}, records=applied())
        put_node(reconciler, settled)
    await reconciler._pass_safely()
    reconciler._changed.clear()
    api.go_on.set()
    await settle(reconciler)
    assert reconciler._changed.is_set()
    await pass_and_settle(reconciler)
    assert matched(api, "training") == [0, 4]
    assert matched(api, "other") == [0]


async def test_a_status_that_says_the_same_is_not_written_again() -> None:
    api = LoopApi()
    reconciler = build_reconciler(api, [a_pool()])
    for _ in range(2):
        reconciler._status_writer.mark_stale({"training"})
        await pass_and_settle(reconciler)
    assert api.written("/status") == ["APPLY"]


async def test_a_status_that_was_refused_is_written_again() -> None:
    api = LoopApi(refusal=503, refused="/status")
    reconciler = build_reconciler(api, [a_pool()])
    await pass_and_settle(reconciler)
    assert reconciler._changed.is_set()
    api.refusal = None
    await pass_and_settle(reconciler)
    assert api.written("/status") == ["APPLY", "APPLY"]
    (pool,) = reconciler.pools.all
    assert pool.status.conditions
    assert await reconciler._pass_safely() == 30


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [
        (NodeState.READY, Reason.EXTENDER_STALE, ["Node"]),
        (NodeState.BLOCKED, Reason.WORKLOADS_PRESENT, ["GPUSharePool", "Node"]),
    ],
)
async def test_a_warning_that_comes_and_goes_in_other_words_is_told_once_of_each_object(
    monkeypatch: pytest.MonkeyPatch, state: NodeState, reason: Reason, told: list[str]
) -> None:
    monkeypatch.setattr("gpushare.kube.events.COUNT_SECONDS", 0.0)
    api = LoopApi()
    reconciler = build_reconciler(api, [a_pool()], a_node())
    await pass_and_settle(reconciler)
    for number in range(5):
        for plan in (
            a_node_plan("gpu-1", state, reason, f"pod {number}"),
            a_node_plan(
                "gpu-1", NodeState.READY, Reason.APPLIED, "The node is as its pool specifies"
            ),
        ):
            reconciler._planner.plans_by_pool["training"].show(plan)
            reconciler._status_writer.write((), NOW)
            await settle(reconciler)
    await asyncio.gather(*reconciler._events._tasks)
    assert sorted(e["regarding"]["kind"] for e in api.created if e["reason"] == reason) == told


@pytest.mark.parametrize(
    ("plan_hash", "reason"),
    [(hash_kinds([a_kind()]), Reason.STARTED_NOW), ("0123456789ab", Reason.START_NOW_OUTDATED)],
)
async def test_what_was_started_now_is_told_once(
    monkeypatch: pytest.MonkeyPatch, plan_hash: str, reason: Reason
) -> None:
    monkeypatch.setattr("gpushare.kube.events.COUNT_SECONDS", 0.0)
    said = f"{plan_hash}@{datetime.now(UTC).isoformat()}"
    windows = [{"schedule": "0 0 29 2 *", "duration": "1h"}]
    api, pool = LoopApi(), a_pool(rollout={"windows": windows}, start_now=said)
    reconciler = build_reconciler(api, [pool], a_settled())
    for _ in range(3):
        reconciler._status_writer.mark_stale({"training"})
        reconciler._status_writer._not_before.clear()
        await pass_and_settle(reconciler)
    await asyncio.gather(*reconciler._events._tasks)
    told = {Reason.STARTED_NOW, Reason.START_NOW_OUTDATED}
    assert [event["reason"] for event in api.created if event["reason"] in told] == [reason]


@pytest.mark.parametrize("during", ["the write", "what is told of it"])
async def test_an_error_of_ours_is_logged_and_the_status_arrives_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, during: str
) -> None:
    api = LoopApi()
    reconciler = build_reconciler(api, [a_pool()])
    with monkeypatch.context() as broken:
        if during == "the write":
            broken.setattr(pools_api, "apply_status", lambda *args: 1 / 0)
        else:
            broken.setattr(reconciler.pools, "tell", lambda *args, **kwargs: 1 / 0)
        await pass_and_settle(reconciler)
    assert [record.exc_info is not None for record in caplog.records] == [True]
    await pass_and_settle(reconciler)
    assert api.written("/status") == ["APPLY"]


async def test_a_pool_is_released_after_its_status_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[str] = []

    async def drop_finalizer(api: object, pool: Pool) -> bool:
        released.append(pool.name)
        return True

    monkeypatch.setattr(pools_api, "drop_finalizer", drop_finalizer)
    api = SlowApi("status")
    reconciler = build_reconciler(api, [a_pool()])
    await reconciler._pass_safely()
    api.pools = [a_pool(deleting=True)]
    list_pools_anew(reconciler)
    await reconciler._pass_safely()
    assert released == []
    api.go_on.set()
    await settle(reconciler)
    await reconciler._pass_safely()
    assert released == ["training"]


async def test_what_an_unreadable_pool_is_told_holds_nothing_up_and_is_told_once() -> None:
    api = SlowApi("status")
    reconciler = build_reconciler(api, [a_pool()], a_node(labels=CGPU))
    unreadable = UnreadablePool("odd", "uid-odd", 1, a_pool().status, "spec.mode: unknown")
    api.pools.append(unreadable)
    await reconciler._pass_safely()
    api.go_on.set()
    await settle(reconciler)
    await pass_and_settle(reconciler)
    assert api.written(NODES) == ["APPLY"]
    assert api.written("/odd/status") == ["APPLY"]


@pytest.mark.parametrize("was_readable", [True, False])
async def test_a_pool_that_can_not_be_read_any_more_is_told_so_after_the_write_that_is_in_flight(
    was_readable: bool,
) -> None:
    api = SlowApi("status")
    reconciler = build_reconciler(api, [a_pool()])
    if not was_readable:
        become_unreadable(api, reconciler, "spec.mode: unknown")
    await reconciler._pass_safely()
    await until_quiet(api)
    become_unreadable(api, reconciler, "spec.nodes: unknown")
    await reconciler._pass_safely()
    reconciler._changed.clear()
    api.go_on.set()
    await settle(reconciler)
    assert reconciler._changed.is_set()
    await pass_and_settle(reconciler)
    *_, (_, body) = api.bodies
    assert "spec.nodes" in body["status"]["conditions"][0]["message"]


def become_unreadable(api: LoopApi, reconciler: Reconciler, error: str) -> None:
    """Of the one pool, the next list says that its spec can't be read."""
    pool = a_pool()
    api.pools = [UnreadablePool(pool.name, pool.uid, 2, pool.status, error)]
    list_pools_anew(reconciler)


async def test_when_the_loop_ends_nothing_is_being_written() -> None:
    api = SlowApi("status")
    reconciler = build_reconciler(api, [a_pool()])
    running = asyncio.create_task(reconciler.run())
    await until_quiet(api)
    assert api.in_flight["status"] == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not reconciler._status_writer._in_flight
    api.go_on.set()
    await until_quiet(api)
    assert api.written("/status") == []


async def test_without_the_lease_no_status_is_sent_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    reconciler = build_reconciler(LoopApi(), [a_pool()])

    async def suppress(api: object, pool: object, status: object) -> None:
        raise NotLeaderError

    told: list[str] = []
    monkeypatch.setattr(pools_api, "apply_status", suppress)
    monkeypatch.setattr(StatusWriter, "_tell", lambda *said: told.append("told"))
    await pass_and_settle(reconciler)
    assert told == []


async def test_a_change_of_the_spec_begins_once_the_status_has_it() -> None:
    api = SlowApi("status")
    pool = write_spec(flip_schedule("share"), NOW, schedule="share")
    flipped = pool.model_copy(update={"spec": a_pool(schedule="cgpu").spec, "generation": 9})
    reconciler = build_reconciler(api, [flipped], a_settled(), pods=[a_plugin_pod()])
    await reconciler._pass_safely()
    await until_quiet(api)
    assert api.in_flight["status"] == 1
    assert not api.written(NODES)
    api.go_on.set()
    await settle(reconciler)
    assert reconciler._changed.is_set()
    await pass_and_settle(reconciler)
    (cordon,) = [body for path, body in api.bodies if path.startswith(NODES)]
    assert cordon["spec"] == {"unschedulable": True}


async def test_a_contest_is_one_event_of_the_pool_however_often_it_flips() -> None:
    api = LoopApi()
    pool, told = build_contested("share", "cgpu"), []
    for schedule in ("share", "cgpu", "share"):
        reconciler = build_reconciler(api, [pool], a_settled(), pods=[a_plugin_pod()])
        await pass_and_settle(reconciler)
        told += [each["note"] for each in api.created if each["reason"] == "SpecContested"]
        api.created.clear()
        (written,) = reconciler.pools.all
        assert isinstance(written, Pool)
        pool = write_spec(written, datetime.now(UTC), schedule=schedule)
    assert len(told) == 1
