"""When GPUSharePools count as served: the API server has them, and says so."""

import pytest
from aiohttp import web

from gpushare.kube.errors import CrdMissingError
from gpushare.kube.resources.pools import check_crd
from tests.kit.values.fake_api import Answer, served_by

GROUP = "gpushare.io"
VERSION = "gpushare.io/v1alpha1"
POOLS = f"apis/{VERSION}/gpusharepools"
SERVED = {
    POOLS: {"metadata": {"resourceVersion": "1"}, "items": []},
    "apis": {"groups": [{"name": "apps"}, {"name": GROUP}]},
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
