"""Lists of pools: whether they are served, page by page, and whatever stands in one of them."""

from typing import Any

import pytest
from aiohttp import web

from gpushare.api.pool import Pool, UnreadablePool
from gpushare.kube.errors import CrdMissingError, MalformedAnswerError
from gpushare.kube.resources.pools import (
    check_crd,
    drop_finalizer,
    list_pools,
    list_pools_for_removal,
    parse_pool,
)
from tests.kit.values.fake_api import Answer, FakeApi, served_by
from tests.kit.values.found_clusters import build_found_pool
from tests.kit.values.manifests import Json


def stored(name: str, **metadata: Any) -> Json:
    """A pool as an API server lists it; None takes a field off."""
    pool = build_found_pool(name)
    pool["metadata"] |= {"uid": f"uid-of-{name}", "resourceVersion": "7", **metadata}
    return {**pool, "metadata": {k: v for k, v in pool["metadata"].items() if v is not None}}


def pages_of(*pages: list[Json]) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        assert "limit" in request.query
        number = int(request.query.get("continue", "0"))
        token = str(number + 1) if number + 1 < len(pages) else ""
        metadata = {"resourceVersion": "9", "continue": token}
        return web.json_response({"metadata": metadata, "items": pages[number]})

    return answer


async def test_all_pages_of_a_list_are_read() -> None:
    async with served_by(pages_of([stored("a")], [stored("b"), stored("c")])) as api:
        listed = await list_pools(api)
        removed = await list_pools_for_removal(api)
    assert listed.version == 9
    assert [(pool.name, pool.resource_version) for pool in listed.pools] == [
        ("a", 7), ("b", 7), ("c", 7),
    ]  # fmt: skip
    assert [pool.name for pool in removed] == ["a", "b", "c"]


def test_a_pool_whose_windows_alone_can_not_be_read_is_read_without_them() -> None:
    window = {"schedule": "0 3 * * *", "duration": "2h", "timeZone": "Asia/Nowhere"}
    raw = stored("a")
    raw["spec"] = {**raw["spec"], "rollout": {"maxUnavailable": 3, "windows": [window]}}
    pool = parse_pool(raw)
    assert isinstance(pool, Pool)
    assert (pool.spec.rollout.windows, pool.spec.rollout.max_unavailable) == ((), 3)
    assert "spec.rollout.windows.0.timeZone" in pool.invalid_windows
    raw["spec"] |= {"schedule": "unknown"}
    assert isinstance(parse_pool(raw), UnreadablePool)


@pytest.mark.parametrize(
    ("broken", "part"),
    [
        (stored("b", creationTimestamp=None), "metadata"),
        (stored("b", creationTimestamp=None, deletionTimestamp="2026-01-02T00:00:00Z"), "metadata"),
        (stored("b") | {"spec": "none"}, "spec"),
        (stored("b") | {"status": {"nodes": 3}}, "status"),
    ],
)
async def test_one_that_can_not_be_read_is_told_of_beside_the_others(
    broken: Json, part: str
) -> None:
    async with served_by(pages_of([stored("a", finalizers=None), broken, stored("c")])) as api:
        first, second, third = (await list_pools(api)).pools
    assert isinstance(first, Pool)
    assert isinstance(third, Pool)
    assert isinstance(second, UnreadablePool)
    assert (second.name, second.uid, second.part) == ("b", "uid-of-b", part)


@pytest.mark.parametrize("item", [{}, {"metadata": {"name": "b"}}, "b", None])
async def test_from_a_list_of_something_else_nothing_is_concluded(item: object) -> None:
    """A pool that is left out would count as deleted."""
    async with served_by(pages_of([stored("a"), item])) as api:  # type: ignore[list-item]
        with pytest.raises(MalformedAnswerError):
            await list_pools(api)


async def test_a_pool_that_is_gone_has_no_finalizer_to_drop() -> None:
    async with served_by(pages_of([stored("a")])) as api:
        (pool,) = (await list_pools(api)).pools
    assert isinstance(pool, Pool)
    async with FakeApi().connected() as api:
        assert not await drop_finalizer(api, pool)


VERSION = "gpushare.io/v1alpha1"
POOLS = f"apis/{VERSION}/gpusharepools"
SERVED = {
    POOLS: {"metadata": {"resourceVersion": "1"}, "items": []},
    "apis": {"groups": [{"name": "apps"}, {"name": "gpushare.io"}]},
    f"apis/{VERSION}": {"resources": [{"name": "gpusharepools"}, {"name": "gpusharepools/status"}]},
}


def answers(**others: object) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        found = (SERVED | others).get(request.match_info["path"])
        return web.json_response(found) if found else web.json_response({}, status=404)

    return answer


async def test_pools_that_are_listed_and_told_of_are_served() -> None:
    async with served_by(answers()) as api:
        await check_crd(api)


@pytest.mark.parametrize(
    "late",
    [
        {POOLS: None},
        {"apis": {"groups": [{"name": "apps"}]}},
        {f"apis/{VERSION}": None},
        {f"apis/{VERSION}": {"resources": []}},
    ],
    ids=["the pools", "the group", "the version", "the resource"],
)
async def test_what_is_not_there_yet_is_waited_for(late: dict[str, object]) -> None:
    async with served_by(answers(**late)) as api:
        with pytest.raises(CrdMissingError):
            await check_crd(api)
