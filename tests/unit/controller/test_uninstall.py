"""The pools' part in a removal, against an API server's memory."""

import asyncio
import itertools
from typing import Any

import pytest
from aiohttp import web

from gpushare import names
from gpushare.controller import uninstall
from gpushare.controller.uninstall import remove_pools
from gpushare.kube.errors import PoolsRemainError
from gpushare.names import PoolFate
from tests.kit.values.fake_api import served_by
from tests.kit.values.found_clusters import build_found_pool
from tests.kit.values.manifests import Json

TIMEOUT_SECONDS = 3600.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uninstall, "POLL_SECONDS", 0.01)


def stored(name: str = "training", **more: Any) -> Json:
    pool = build_found_pool(name)
    pool["metadata"] |= {"finalizers": [names.FINALIZER], **more}
    return pool


ENDING = stored(deletionTimestamp="2026-01-01T00:01:00Z")


class Server:
    """Answers each list by the next of `lists` (the last one again and again), writes by 200."""

    def __init__(self, *lists: list[Json] | int) -> None:
        self._lists = itertools.chain(lists, itertools.repeat(lists[-1]))
        self._last: list[Json] = []
        self.writes: list[str] = []
        self.refuses = False
        """The first write."""
        self.deadline: asyncio.Timeout | None = None
        """It comes in the midst of the second pass: at its list, or where that is refused a write,
        at that."""
        self._asked = 0
        self.table: Json | int = 404
        """The admission table, or the answer to all calls for it."""

    async def answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        name = path.rpartition("/")[2]
        if names.TABLE_PLURAL in path:
            return self._answer_table(request)
        if request.method != "GET" if self.refuses else name == names.PLURAL:
            self._asked += 1
            if self.deadline is not None and self._asked == 2:
                self.deadline.reschedule(0.0)
                await asyncio.Event().wait()
        if request.method != "GET" and self.refuses:
            return web.json_response({"message": "not you"}, status=403)
        if request.method != "GET":
            self.writes.append(f"{request.method} {name}")
            return web.json_response({})
        if name != names.PLURAL:
            return web.json_response(next(p for p in self._last if p["metadata"]["name"] == name))
        found = next(self._lists)
        if isinstance(found, int):
            return web.json_response({"message": "no"}, status=found)
        self._last = found
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": found})

    def _answer_table(self, request: web.Request) -> web.Response:
        if isinstance(self.table, int):
            return web.json_response({"message": "no"}, status=self.table)
        if request.method == "DELETE":
            self.writes.append("DELETE table")
        return web.json_response(self.table)


async def remove(server: Server, fate: PoolFate) -> list[str]:
    """What is told of it."""
    told: list[str] = []
    wishes: Json = {"timeout_seconds": TIMEOUT_SECONDS, "namespace": "gpushare-system"}
    async with served_by(server.answer) as api:
        await remove_pools(api, fate, tell=told.append, **wishes)
    return told


async def test_a_pool_is_deleted_once_and_its_end_awaited() -> None:
    server = Server([stored()], [ENDING], [ENDING], [])
    deleted, waits, _ = await remove(server, PoolFate.DELETE)
    assert server.writes == ["DELETE training"]
    assert "Retain" in deleted
    assert "waits for the controller" in waits


async def test_kept_pools_lose_the_finalizer_again_where_a_controller_put_it_back() -> None:
    server = Server([stored()], [stored()], [stored(finalizers=[])])
    await remove(server, PoolFate.KEEP)
    assert server.writes == ["PATCH training", "PATCH training"]


@pytest.mark.parametrize("fate", PoolFate)
async def test_the_admission_table_goes_in_the_end_since_nobody_keeps_it(fate: PoolFate) -> None:
    server = Server([stored()], [])
    server.table = {"metadata": {"name": "pools", "uid": "u1"}}
    *_, told = await remove(server, fate)
    assert server.writes[1:] == ["DELETE table"]
    assert "table is deleted" in told


async def test_an_admission_table_that_cannot_be_deleted_holds_up_nothing() -> None:
    server = Server([])
    server.table = 403
    assert "kubectl delete" in (await remove(server, PoolFate.DELETE))[-1]


@pytest.mark.parametrize("fate", PoolFate)
async def test_without_the_crd_there_is_nothing_to_do(fate: PoolFate) -> None:
    assert "CRD was not found" in (await remove(Server(404), fate))[0]


@pytest.mark.parametrize("status", [403, 429, 500])
async def test_an_outage_is_sat_out(status: int) -> None:
    outage, _ = await remove(Server(status, []), PoolFate.DELETE)
    assert str(status) in outage


@pytest.mark.parametrize(
    ("listed", "refuses", "fate", "words"),
    [
        (403, False, PoolFate.DELETE, r"cannot be listed: .*403"),
        ([ENDING], False, PoolFate.DELETE, "Pool training waits for the controller"),
        ([stored()], True, PoolFate.DELETE, r"training cannot be deleted: .*403"),
        ([stored()], True, PoolFate.KEEP, r"training cannot be released: .*403"),
    ],
    ids=["no list", "no end", "no deletion", "no release"],
)
async def test_a_removal_that_comes_to_no_end_fails_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    listed: list[Json] | int,
    refuses: bool,
    fate: PoolFate,
    words: str,
) -> None:
    server = Server(listed)
    server.refuses = refuses

    def begin(seconds: float | None) -> asyncio.Timeout:
        timeout = asyncio.Timeout(None)
        if seconds == TIMEOUT_SECONDS:
            server.deadline = timeout
        return timeout

    monkeypatch.setattr(uninstall.asyncio, "timeout", begin)  # type: ignore[attr-defined]
    with pytest.raises(PoolsRemainError, match=words):
        await remove(server, fate)
    assert server.writes == []


async def test_a_pool_that_another_version_wrote_is_removed_all_the_same() -> None:
    odd = stored() | {"spec": {"new": 1}, "status": {"nodes": "many", "releasing": "soon"}}
    server = Server([odd], [])
    await remove(server, PoolFate.DELETE)
    assert server.writes == ["DELETE training"]
