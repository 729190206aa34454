"""The admission table follows the pools, against an API server's memory."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import web

from gpushare import names
from gpushare.controller import admission_table
from gpushare.controller.admission_table import AdmissionTableKeeper
from gpushare.kube.resources.admission_tables import PATH
from gpushare.observe.metrics.controller import ControllerMetrics
from tests.kit.values.fake_api import served_by
from tests.kit.values.manifests import Json, build_pool
from tests.kit.values.webhook_server import until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_table, "PERIOD_SECONDS", 0.01)
    monkeypatch.setattr(admission_table, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(admission_table, "find_delay", lambda error, failures: 0.01)


class TableServer:
    """Holds pools and the table. `refusal` answers all calls for the table, where it is set."""

    def __init__(self, *pools: Json) -> None:
        self.pools = list(pools)
        self.table: Json | None = None
        self.writes: list[str] = []
        self.reads = 0
        self.refusal: int | None = None
        self.forgets = False
        """It stores no pools of the table, as with another CRD."""
        self.events: asyncio.Queue[Json] = asyncio.Queue()
        self._version = 10

    def change(self, pool: Json) -> None:
        """Have the watch tell of it."""
        self._version += 1
        metadata = {**pool["metadata"], "resourceVersion": str(self._version)}
        self.events.put_nowait({"type": "MODIFIED", "object": {**pool, "metadata": metadata}})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        if names.TABLE_PLURAL in path:
            return await self._answer_table(request)
        if "watch" in request.query:
            return await self._stream(request)
        items = [
            {**pool, "metadata": {**pool["metadata"], "resourceVersion": "5"}}
            for pool in self.pools
        ]
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": items})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await stream.write(orjson.dumps(await self.events.get()) + b"\n")
        return stream

    async def _answer_table(self, request: web.Request) -> web.Response:
        if self.refusal is not None:
            return web.json_response({"message": "not you"}, status=self.refusal)
        if request.method == "GET":
            self.reads += 1
        else:
            body = await request.json()
            spec = {**body["spec"], "pools": []} if self.forgets else body["spec"]
            assert body["metadata"].get("uid") == (self.table and "u1")
            self.table = {**body, "metadata": {"name": "pools", "uid": "u1"}, "spec": spec}
            self.writes.append(request.method)
        status = 404 if self.table is None else 200
        return web.json_response(self.table or {"message": "none"}, status=status)


@contextlib.asynccontextmanager
async def kept(server: TableServer) -> AsyncIterator[ControllerMetrics]:
    """A keeper runs against the server within the block."""
    metrics = ControllerMetrics()
    async with served_by(server.answer) as api:
        task = asyncio.create_task(AdmissionTableKeeper(api, metrics).run())
        try:
            yield metrics
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def expect_looked_again(server: TableServer) -> None:
    """Two more looks: what the first one found is answered by then."""
    seen = server.reads
    await until(lambda: server.reads >= seen + 2)


def list_pools(server: TableServer) -> list[str]:
    return [each["name"] for each in server.table["spec"]["pools"]] if server.table else []


def a_raw_pool(name: str = "training", **more: Any) -> Json:
    pool = build_pool(name)
    pool["metadata"] |= {"uid": name}
    return pool | more


async def test_it_is_created_and_then_left_alone_while_it_shows_the_pools() -> None:
    server = TableServer(a_raw_pool())
    async with kept(server) as metrics:
        await until(lambda: list_pools(server) == ["training"])
        await expect_looked_again(server)
        assert metrics.table_verified._value.get() > 0
    assert server.writes == ["POST"]
    assert math.isnan(metrics.table_verified._value.get())


async def test_it_follows_a_pool_that_changes() -> None:
    server = TableServer(a_raw_pool())
    async with kept(server):
        await until(lambda: server.table)
        server.change(a_raw_pool("other"))
        await until(lambda: list_pools(server) == ["other", "training"])
    assert server.writes == ["POST", "PATCH"]


@pytest.mark.parametrize("loses", [True, False], ids=["deleted", "edited"])
async def test_what_others_do_to_it_is_undone(loses: bool) -> None:
    server = TableServer(a_raw_pool())
    async with kept(server):
        await until(lambda: server.table)
        assert server.table is not None
        server.table = None if loses else {**server.table, "spec": {"pools": []}}
        await until(lambda: list_pools(server) == ["training"])


async def test_free_memory_alone_is_no_reason_to_look_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission_table, "RECHECK_SECONDS", 3600.0)
    server = TableServer(a_raw_pool())
    async with kept(server):
        await until(lambda: server.table)
        capacity = {"observedAt": "2026-01-02T03:04:05Z", "memoryTotal": 60}
        for pool in (a_raw_pool(status={"capacity": capacity}), a_raw_pool("other")):
            server.change(pool)
        await until(lambda: list_pools(server) == ["other", "training"])
    assert server.reads == 2


@pytest.mark.parametrize(
    ("status", "word"), [(403, "not you"), (404, "is not installed"), (422, "not you")]
)
async def test_a_refusal_is_told_once_and_ends_nothing(
    status: int, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    server = TableServer(a_raw_pool())
    server.refusal = status
    async with kept(server):
        await until(lambda: word in caplog.text)
        server.refusal = None
        await until(lambda: list_pools(server) == ["training"])
        await until(lambda: "kept again" in caplog.text)
    told = [each for each in caplog.messages if "not kept" in each]
    assert len(told) == 1
    assert PATH.rpartition("/")[2] in told[0]
    assert "kubectl" in told[0]


async def test_a_table_that_the_api_server_cuts_down_counts_as_not_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = TableServer(a_raw_pool())
    server.forgets = True
    async with kept(server) as metrics:
        await until(lambda: "not kept" in caplog.text)
        assert metrics.table_verified._value.get() == 0


async def test_pools_that_do_not_fit_in_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    odd = a_raw_pool("odd")
    odd["spec"] = {
        **odd["spec"],
        "workloads": {"tolerations": [{"key": "no key!", "operator": "Exists"}]},
    }
    server = TableServer(odd)
    async with kept(server) as metrics:
        await until(lambda: server.table)
        assert metrics.table_omitted._value.get() == 1
    assert "1 pools are left out" in caplog.text
