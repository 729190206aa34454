"""A cluster is read whole or not at all, and nobody waits long for nothing."""

from datetime import UTC, datetime

import pytest
from aiohttp import web

from gpushare.analysis.finding import Unseen
from gpushare.api.pruned.cluster import Kind
from gpushare.cli.cluster.objects import ATTEMPTS, read_cluster
from gpushare.cli.cluster.partial_read import see
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import ApiError, OtherVersionError
from gpushare.kube.resources.dynamic_resources import find_group_path
from tests.kit.values.fake_api import served_by

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "headers", "times"), [(500, {}, ATTEMPTS), (429, {"Retry-After": "30"}, 1)]
)
async def test_a_server_that_fails_is_asked_again_and_one_that_wants_to_be_left_alone_for_long_not(
    status: int, headers: dict[str, str], times: int
) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, headers=headers)

    async with served_by(answer) as api:
        with pytest.raises(ApiError):
            await read_cluster(api, (Kind.NODES,), NOW)
    assert len(asked) == times


async def test_a_server_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def hang(api: ApiClient, path: str, **params: str) -> None:
        asked.append(path)
        raise TimeoutError

    monkeypatch.setattr(ApiClient, "get", hang)
    with pytest.raises(TimeoutError):
        await read_cluster(ApiClient(None), (Kind.NODES,), NOW)  # type: ignore[arg-type]
    assert len(asked) == 1


async def test_pools_of_another_version_are_not_missing() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/apis/gpushare.io":
            return web.json_response({"versions": [{"version": "v2"}, {"version": "v1beta1"}]})
        return web.Response(status=404)

    async with served_by(answer) as api:
        with pytest.raises(OtherVersionError, match=r"in version v2, v1beta1, but this program"):
            await read_cluster(api, (Kind.POOLS,), NOW)
        assert isinstance(await see(read_cluster(api, (Kind.POOLS,), NOW)), Unseen)


@pytest.mark.parametrize("status", [403, 404])
async def test_where_no_version_is_known_there_are_no_pools(status: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status if request.path == "/apis/gpushare.io" else 404)

    async with served_by(answer) as api:
        assert (await read_cluster(api, (Kind.POOLS,), NOW)).pools is None


@pytest.mark.parametrize(
    ("served", "path"),
    [
        (["v1beta1", "v1"], "apis/resource.k8s.io/v1"),
        (["v1beta1"], "apis/resource.k8s.io/v1beta1"),
        (["v1alpha3"], None),
        (404, None),
        (403, None),
    ],
)
async def test_slices_are_read_in_the_newest_version_that_is_served(
    served: list[str] | int, path: str | None
) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(f"{request.path.removeprefix('/')} {dict(request.query)}")
        if isinstance(served, int):
            return web.json_response({"kind": "Status", "message": "no"}, status=served)
        versions = [{"version": version} for version in served]
        found = {"versions": versions, "metadata": {"resourceVersion": "1"}, "items": []}
        return web.json_response(found)

    async with served_by(answer) as api:
        assert await find_group_path(api) == path
        cluster = await read_cluster(api, (Kind.RESOURCESLICES,), NOW)
    assert (cluster.resourceslices, cluster.unread) == ((), {})
    lists = [each for each in asked if "resourceslices" in each]
    assert all(
        each.startswith(str(path)) and "spec.driver=gpu.nvidia.com" in each for each in lists
    )
    assert len(lists) == (path is not None)


async def test_config_maps_that_may_not_be_listed_are_unread_and_all_else_is_read() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/configmaps"):
            return web.json_response({"kind": "Status", "message": "forbidden"}, status=403)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    async with served_by(answer) as api:
        cluster = await read_cluster(api, (Kind.NODES, Kind.CONFIGMAPS), NOW)
    assert set(cluster.unread) == {Kind.CONFIGMAPS}
    assert cluster.configmaps == ()
