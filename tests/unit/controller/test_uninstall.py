"""The pools' part in a removal, against an API server's memory."""

import itertools
from typing import Any

import pytest
from aiohttp import web

from gpushare import names
from gpushare.controller import uninstall
from gpushare.controller.uninstall import remove_pools
from gpushare.kube.client import ApiServer
from gpushare.kube.errors import PoolsRemainError
from gpushare.names import PoolFate
from tests.kit.builders import build_pool
from tests.kit.fakeapi import served_by

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uninstall, "POLL_SECONDS", 0.01)


def stored(name: str = "training", **more: Any) -> Json:
    pool = build_pool(name)
    pool["metadata"] |= {
        "uid": f"uid-of-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [names.FINALIZER],
        **more,
    }
    return pool


class Server:
    """Answers each list by the next of `lists` (the last one again and again), writes by 200."""

    def __init__(self, *lists: list[Json] | int) -> None:
        self._lists = itertools.chain(lists, itertools.repeat(lists[-1]))
        self._last: list[Json] = []
        self.writes: list[str] = []
        self.refuses = False
        """Every write."""

    async def answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        name = path.rpartition("/")[2]
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


async def remove(api: ApiServer, fate: PoolFate, timeout_seconds: float = 5) -> list[str]:
    told: list[str] = []
    await remove_pools(
        api, fate, timeout_seconds=timeout_seconds, namespace="gpushare-system", tell=told.append
    )
    return told


async def test_a_pool_is_deleted_once_and_its_end_awaited() -> None:
    ending = stored(deletionTimestamp="2026-01-01T00:01:00Z")
    server = Server([stored()], [ending], [ending], [])
    async with served_by(server.answer) as api:
        told = await remove(api, PoolFate.DELETE)
    assert server.writes == ["DELETE training"]
    assert told == [
        "pool training: deleted; its nodes are given back, deletionPolicy Retain",
        "pool training: waits for the controller, which has not looked at it yet",
        "no pool is left",
    ]


async def test_kept_pools_lose_the_finalizer_again_where_a_controller_put_it_back() -> None:
    server = Server([stored()], [stored()], [stored(finalizers=[])])
    async with served_by(server.answer) as api:
        told = await remove(api, PoolFate.KEEP)
    assert server.writes == ["PATCH training", "PATCH training"]
    assert told == ["pool training: let go; its nodes stay as they are", "no pool is held"]


@pytest.mark.parametrize("fate", PoolFate)
async def test_without_the_crd_there_is_nothing_to_do(fate: PoolFate) -> None:
    server = Server(404)
    async with served_by(server.answer) as api:
        assert "CRD is gone" in (await remove(api, fate))[0]


@pytest.mark.parametrize("status", [403, 429, 500])
async def test_an_outage_is_sat_out(status: int) -> None:
    server = Server(status, [])
    async with served_by(server.answer) as api:
        told = await remove(api, PoolFate.DELETE)
    assert told[-1] == "no pool is left"


async def test_an_outage_that_lasts_is_said_and_not_taken_for_a_success() -> None:
    server = Server(403)
    async with served_by(server.answer) as api:
        with pytest.raises(PoolsRemainError, match=r"can't be listed: .*403"):
            await remove(api, PoolFate.DELETE, timeout_seconds=0.2)


async def test_a_pool_that_does_not_end_fails_the_removal_by_its_name() -> None:
    server = Server([stored(deletionTimestamp="2026-01-01T00:01:00Z")])
    async with served_by(server.answer) as api:
        with pytest.raises(PoolsRemainError, match="pool training: waits for the controller"):
            await remove(api, PoolFate.DELETE, timeout_seconds=0.2)
    assert server.writes == []


@pytest.mark.parametrize(("fate", "what"), [("delete", "deleted"), ("keep", "let go")])
async def test_a_write_that_is_refused_is_said_as_what_it_is(fate: str, what: str) -> None:
    server = Server([stored()])
    server.refuses = True
    async with served_by(server.answer) as api:
        with pytest.raises(PoolsRemainError, match=f"training can't be {what}: .*403 not you"):
            await remove(api, PoolFate(fate), timeout_seconds=0.2)


async def test_a_pool_that_another_version_wrote_is_removed_all_the_same() -> None:
    odd = stored() | {"spec": {"new": 1}, "status": {"nodes": "many", "leaving": "soon"}}
    server = Server([odd], [])
    async with served_by(server.answer) as api:
        await remove(api, PoolFate.DELETE)
    assert server.writes == ["DELETE training"]
