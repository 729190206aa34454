"""The scheduler extender's side of a Binding."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer

from devcluster import names
from devcluster.client import Client
from devcluster.simulator.extender import PREFIX, Extender
from devcluster.simulator.faults import Faults
from devcluster.simulator.objects import Node
from devcluster.simulator.player import Player
from devcluster.simulator.world import World

ASKED = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid", "Node": "n1"}


class OnePod:
    """An API server with one pod, which remembers what was written."""

    def __init__(self) -> None:
        limits = {names.GPU_MEM: "4"}
        self.pod: dict[str, Any] = {
            "metadata": {"uid": "uid", "name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
        }
        self.bindings = 0
        self.ledgers = 0

    async def get(self, path: str) -> dict[str, Any]:
        return self.pod

    async def patch(self, path: str, body: dict[str, Any]) -> None:
        self.ledgers += 1

    async def post(self, path: str, body: dict[str, Any]) -> None:
        self.bindings += 1


class OneNode(World):
    """A world with one node of one card, that no watch changes."""

    def find_node(self, name: str) -> Node | None:
        capacity = {names.GPU_MEM: "15", names.GPU_COUNT: "1"}
        return Node(name, labels={names.GPUSHARE: "true"}, capacity=capacity)


@pytest.fixture
def server() -> OnePod:
    return OnePod()


@pytest.fixture
async def extender(server: OnePod) -> AsyncIterator[TestClient[Any, Any]]:
    client = cast(Client, server)
    world = OneNode(client, lambda name: None)
    player = SimpleNamespace(world=world, faults_of=lambda node: Faults())
    application = Extender(client, cast(Player, player)).build_application()
    async with TestClient(TestServer(application)) as asking:
        yield asking


async def _bind(extender: TestClient[Any, Any]) -> str:
    answer = await extender.post(f"{PREFIX}/bind", json=ASKED)
    error: str = (await answer.json())["Error"]
    assert answer.status == (500 if error else 200)
    return error


async def test_a_pod_is_entered_in_the_ledger_and_bound(
    extender: TestClient[Any, Any], server: OnePod
) -> None:
    assert await _bind(extender) == ""
    assert (server.ledgers, server.bindings) == (1, 1)


async def test_a_second_try_leaves_the_ledger_of_the_first_as_it_is(
    extender: TestClient[Any, Any], server: OnePod
) -> None:
    await _bind(extender)
    assert "is bound, or about to be" in await _bind(extender)
    assert server.ledgers == 1


async def test_nodes_are_listed_once_the_extender_was_asked_about_them(
    extender: TestClient[Any, Any],
) -> None:
    async def list_nodes() -> list[str]:
        answer = await (await extender.get(f"{PREFIX}/inspect")).json()
        return [node["name"] for node in answer["nodes"]]

    assert await list_nodes() == []
    await _bind(extender)
    assert await list_nodes() == ["n1"]
    await extender.post("/restart")
    assert await list_nodes() == []
