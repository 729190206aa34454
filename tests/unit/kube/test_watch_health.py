"""When a watch counts as deaf: it is open, and nothing comes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpushare.kube.watch_health import WatchHealth
from tests.kit.values.clock import Clock

LIMIT_SECONDS = 90.0


@pytest.fixture
def watch_health(clock: Clock) -> WatchHealth:
    return WatchHealth("nodes", clock)


def is_stalled(watch_health: WatchHealth) -> bool:
    return watch_health.find_stalled(LIMIT_SECONDS) is not None


def test_before_the_first_sign_there_is_nothing_to_miss(
    clock: Clock, watch_health: WatchHealth
) -> None:
    clock.now += 3600
    assert not is_stalled(watch_health)


def test_a_watch_is_deaf_from_the_limit_to_the_next_sign(
    clock: Clock, watch_health: WatchHealth
) -> None:
    watch_health.note()
    clock.now += LIMIT_SECONDS
    assert not is_stalled(watch_health)
    clock.now += 31
    assert "nodes" in (watch_health.find_stalled(LIMIT_SECONDS) or "")
    watch_health.note()
    assert not is_stalled(watch_health)


# What is overheard of a library's watch.


async def end(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b"{}\n")


async def cut(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    assert request.transport is not None
    request.transport.abort()
    return response


async def stay_silent(request: web.Request) -> web.StreamResponse:
    await web.StreamResponse().prepare(request)
    return await stall(request)


async def stall(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


async def refuse(request: web.Request) -> web.StreamResponse:
    return web.Response(status=503, body=b"{}")


@contextlib.asynccontextmanager
async def listening_to(watch_health: WatchHealth) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that only watches; each path is one way in which a watch may go."""
    app = web.Application()
    for watch in (end, cut, stay_silent, stall, refuse):
        app.router.add_get(f"/{watch.__name__}", watch)
    async with (
        TestServer(app) as server,
        aiohttp.ClientSession(
            server.make_url("/"), middlewares=(watch_health.overhear,)
        ) as session,
    ):
        yield session


async def watch_once(session: aiohttp.ClientSession, path: str) -> None:
    """Read it to its end; one that has none is given up."""
    # Of this one nothing ever comes, however long it is waited for.
    patience = 0.01 if path == "/stall" else None
    with contextlib.suppress(aiohttp.ClientPayloadError, TimeoutError):
        async with session.get(path, timeout=aiohttp.ClientTimeout(patience)) as answer:
            if path != "/stay_silent":
                await answer.read()


@pytest.mark.parametrize(("seconds", "is_sign"), [(10.0, True), (25.0, False)])
async def test_one_that_was_cut_is_a_sign_and_one_that_was_given_up_is_none(
    clock: Clock, watch_health: WatchHealth, seconds: float, is_sign: bool
) -> None:
    async with listening_to(watch_health) as session:
        await watch_once(session, "/end")
        clock.now += 1000
        await watch_once(session, "/cut" if is_sign else "/stay_silent")
        # How it went is seen by whoever opens the next.
        clock.now += seconds
        await watch_once(session, "/stay_silent")
    assert is_stalled(watch_health) is not is_sign


@pytest.mark.parametrize("way", ["end", "refuse", "stall"])
async def test_what_ends_or_is_not_even_answered_is_no_deafness(
    clock: Clock, watch_health: WatchHealth, way: str
) -> None:
    async with listening_to(watch_health) as session:
        await watch_once(session, "/end")
        clock.now += 1000
        await watch_once(session, f"/{way}")
    async with aiohttp.ClientSession(middlewares=(watch_health.overhear,)) as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get("http://127.0.0.1:9/")
    assert not is_stalled(watch_health)


async def test_whoever_wants_to_know_is_told_of_what_was_answered_and_not_of_refusals() -> None:
    told: list[str] = []
    watch_health = WatchHealth("pools", on_alive=lambda: told.append("heard"))
    async with listening_to(watch_health) as session:
        for way in ("refuse", "stay_silent", "stall", "refuse"):
            await watch_once(session, f"/{way}")
        assert told == []
        await watch_once(session, "/end")
    assert told == ["heard"]
